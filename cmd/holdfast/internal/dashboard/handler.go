package dashboard

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/force"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

//go:embed assets
var assets embed.FS

const (
	signInPath  = "/api/sign-in"
	metricsPath = "/metrics"
	healthPath  = "/healthz"
)

// OwnPaths returns the paths that cannot be a base path: a request for one of them could be a stripped path or a whole one.
func OwnPaths() []string { return []string{"/api", metricsPath, healthPath} }

// noPage is the reason for refusing an unknown path.
const noPage = "there is no such page"

// handler answers requests that have passed the guard.
type handler struct {
	*observer

	sessions *sessions // nil: there is no token
	slots    chan struct{}
}

func newHandler(o *observer) http.Handler {
	h := &handler{observer: o, slots: make(chan struct{}, mostAtOnce)}
	if o.Token != "" {
		h.sessions = newSessions(o.Token, o.guesses)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusNotFound, noPage) })
	serveFiles(mux, o.BasePath)
	mux.HandleFunc("GET "+healthPath, h.health)
	mux.HandleFunc("GET "+metricsPath, h.slotted(h.metrics))
	mux.HandleFunc("GET /api/locks", h.slotted(h.locks))
	mux.HandleFunc("GET /api/lock", h.slotted(h.lock))
	mux.HandleFunc("POST /api/unlock", h.slotted(h.unlock))
	mux.HandleFunc("POST "+signInPath, h.signIn)
	mux.HandleFunc("POST /api/sign-out", h.signOut)
	return &guard{base: o.BasePath, hosts: o.Hosts, sessions: h.sessions, next: mux}
}

// slotted has so many requests answered at once, and refuses more. Nobody holds a slot who takes time to send or to read: a request is read
// before, and its answer is written behind it.
func (h *handler) slotted(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case h.slots <- struct{}{}:
		default:
			refuse(w, http.StatusServiceUnavailable, "too many ask at once; try again")
			return
		}
		written := draft{header: w.Header(), status: http.StatusOK}
		func() {
			defer func() { <-h.slots }()
			handle(&written, r)
		}()
		w.WriteHeader(written.status)
		_, _ = w.Write(written.text.Bytes()) // who has asked may have gone
	}
}

// draft is an answer that is not sent yet.
type draft struct {
	header http.Header
	status int
	text   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (d *draft) Header() http.Header { return d.header }

// WriteHeader implements [http.ResponseWriter].
func (d *draft) WriteHeader(status int) { d.status = status }

// Write implements [http.ResponseWriter].
func (d *draft) Write(text []byte) (int, error) { return d.text.Write(text) }

// serveFiles adds the page's files. They are embedded, so it panics if they cannot be read. Each has a pattern of its own:
// what is not there is refused in JSON, as all else is. The page names its files relative to its own address, or, with a base path,
// below that: then its address needs no slash at the end.
func serveFiles(mux *http.ServeMux, base string) {
	page, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err)
	}
	names, err := fs.Glob(page, "*")
	if err != nil {
		panic(err)
	}
	index, err := fs.ReadFile(page, "index.html")
	if err != nil {
		panic(err)
	}
	if base != "" {
		index = bytes.ReplaceAll(index, []byte(`="./`), []byte(`="`+base+`/`))
	}
	server := http.FileServerFS(page)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "index.html", time.Time{}, bytes.NewReader(index))
	})
	for _, name := range names {
		mux.Handle("GET /"+name, server)
	}
}

// answer writes JSON.
func answer(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written"}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text) // who has asked may have gone
}

// refuse says why not.
func refuse(w http.ResponseWriter, status int, why string) {
	answer(w, status, map[string]string{"error": why})
}

// asked reads the JSON of a request. It answers itself if there is none.
func asked(w http.ResponseWriter, r *http.Request, value any) bool {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(value); err != nil {
		refuse(w, http.StatusBadRequest, notUnderstood)
		return false
	}
	return true
}

// notUnderstood is the reason for refusing a request whose body is not what it should be.
const notUnderstood = "the request is not understood"

// idOf is a name as it stands in addresses, percent-encoded: names may hold any bytes.
func idOf(name string) string {
	if len(name) > protocol.MaxName {
		return ""
	}
	return url.PathEscape(name)
}

// notAddress says that an id stands for no name.
const notAddress = "that is no lock's address: a name stands there percent-encoded, as orders%2F42"

func nameOf(id string) (string, bool) {
	name, err := url.PathUnescape(id)
	return name, err == nil && len(name) > 0 && len(name) <= protocol.MaxName
}

func (h *handler) signIn(w http.ResponseWriter, r *http.Request) {
	var given struct {
		Token string `json:"token"`
	}
	if !asked(w, r, &given) {
		return
	}
	if h.sessions == nil {
		refuse(w, http.StatusNotFound, "no token is wanted")
		return
	}
	secret, ok := h.sessions.begin(r, given.Token)
	if !ok {
		refuse(w, http.StatusUnauthorized, "that is not the token")
		return
	}
	http.SetCookie(w, cookie(r, secret))
	answer(w, http.StatusOK, struct{}{})
}

func (h *handler) signOut(w http.ResponseWriter, r *http.Request) {
	if given, err := r.Cookie(cookieName); err == nil && h.sessions != nil {
		h.sessions.end(given.Value)
	}
	http.SetCookie(w, cookie(r, ""))
	answer(w, http.StatusOK, struct{}{})
}

// health says whether the last look at Redis was a success, to anybody: it shows nothing of Redis.
func (h *handler) health(w http.ResponseWriter, _ *http.Request) {
	h.mu.Lock()
	well := h.away == nil && h.looks > 0
	h.mu.Unlock()
	if !well {
		refuse(w, http.StatusServiceUnavailable, "the last look at Redis has failed, or there was none yet")
		return
	}
	answer(w, http.StatusOK, struct{}{})
}

// lock answers with all that is known of one lock.
func (h *handler) lock(w http.ResponseWriter, r *http.Request) {
	name, ok := nameOf(r.URL.Query().Get("id"))
	if !ok {
		refuse(w, http.StatusBadRequest, notAddress)
		return
	}
	g, err := h.glance(r.Context(), name)
	if err != nil {
		refuse(w, http.StatusBadGateway, "Redis cannot be used: "+present.Safe(h.Explain(err)))
		return
	}
	answer(w, http.StatusOK, h.page(name, g))
}

// unlock takes a lock away from those whom the reader has been shown.
func (h *handler) unlock(w http.ResponseWriter, r *http.Request) {
	if !h.AllowUnlock {
		refuse(w, http.StatusForbidden, "this dashboard takes no locks away: it was started without --allow-unlock")
		return
	}
	var given struct {
		ID   string `json:"id"`
		Seen string `json:"seen"`
	}
	if !asked(w, r, &given) {
		return
	}
	name, ok := nameOf(given.ID)
	if !ok {
		refuse(w, http.StatusBadRequest, notAddress)
		return
	}
	// A reader who goes away does not stop half of it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), longestUnlock)
	defer cancel()
	now, err := survey.Read(ctx, h.Redis, name)
	switch {
	case errors.Is(err, survey.ErrNotFound), err == nil && now.State != survey.Held:
		refuse(w, http.StatusConflict, goneText)
	case errors.Is(err, survey.ErrOtherKind), err == nil && !force.Possible(now):
		refuse(w, http.StatusConflict, "Redis does not say who holds it, so there is nobody to take it from")
	case err != nil:
		refuse(w, http.StatusBadGateway, "Redis cannot be used: "+present.Safe(h.Explain(err)))
	case force.Holders(now) != given.Seen:
		refuse(w, http.StatusConflict, (&force.ChangedError{Now: now}).Error())
	default:
		done, err := force.Unlock(ctx, h.Redis, now)
		h.unlocked(w, now, done, err)
	}
}

// goneText says that there is nothing to take away.
const goneText = "nobody holds it any more"

// unlocked says what came of it.
func (h *handler) unlocked(w http.ResponseWriter, l survey.Lock, done bool, err error) {
	if done {
		h.takenAway(l)
		h.Log("%s was taken away by the dashboard: %s", present.Safe(l.Name), force.Victims(l))
	}
	var changed *force.ChangedError
	switch {
	case done && err == nil:
		answer(w, http.StatusOK, map[string]string{"said": "It was taken away."})
	case errors.Is(err, holdfast.ErrUntold), done:
		answer(w, http.StatusOK, map[string]string{"said": "It was taken away, but those who wait were not told and find out later."})
	case errors.As(err, &changed):
		refuse(w, http.StatusConflict, changed.Error())
	case err != nil:
		refuse(w, http.StatusBadGateway, "Redis cannot be used, so it may have been taken away or not: "+present.Safe(h.Explain(err)))
	default:
		refuse(w, http.StatusConflict, goneText)
	}
}
