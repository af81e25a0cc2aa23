package dashboard

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
)

// pictures is where to put the pictures of docs/dashboard.md; without it none are made.
var pictures = flag.String("pictures", "", "write the pictures of docs/dashboard.md to this directory")

// hostile are names that would do something if they were taken for HTML, or hide what they are.
var hostile = []string{
	`<img src=x onerror="document.title='broken in'">`, `"><script>document.title='broken in'</script>`, "\u202egnp.exe\x00\x1b[2J",
	`javascript:document.title='broken in'`, strings.Repeat("long-name-without-a-break", 40), "\xff\xfe not UTF-8",
}

// browser is a Chromium that runs without a window. Without one the test is skipped, but not where CI is set.
func browser(t *testing.T) context.Context {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.DisableGPU,
			chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.WSURLReadTimeout(2*patience))
		if os.Getuid() == 0 {
			options = append(options, chromedp.NoSandbox)
		}
		allocated, cancel := chromedp.NewExecAllocator(context.Background(), options...)
		t.Cleanup(cancel)
		ctx, cancel := chromedp.NewContext(allocated)
		t.Cleanup(cancel)
		if err := chromedp.Do(ctx); err != nil {
			t.Fatalf("%s does not start: %v", path, err)
		}
		return ctx
	}
	if os.Getenv("CI") != "" {
		t.Fatal("there is no Chromium; tools/need-chromium installs one")
	}
	t.Skip("there is no Chromium; tools/need-chromium installs one")
	return nil
}

// tab is a page in a browser, with a profile of its own.
type tab struct {
	*testing.T

	ctx context.Context

	mu       sync.Mutex
	troubles []string // what the console says
	expected []string // what it may say
}

// open opens a tab of the dashboard's page.
func open(t *testing.T, browser context.Context, address string, expected ...string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 4*patience)
	t.Cleanup(cancel)
	b := &tab{T: t, ctx: ctx, expected: expected}
	err := chromedp.Listen(ctx, func(event any) {
		switch event := event.(type) {
		case *cdplog.EventEntryAdded:
			if event.Entry.Level == cdplog.EntryLevelInfo { // such as that whoever types already keeps the focus
				return
			}
			b.trouble(fmt.Sprintf("%s: %s %s", event.Entry.Level, event.Entry.Text, event.Entry.URL))
		case *runtime.EventConsoleAPICalled:
			b.trouble(fmt.Sprintf("console.%s", event.Type))
		case *runtime.EventExceptionThrown:
			b.trouble(fmt.Sprintf("an exception: %+v", event.ExceptionDetails.Exception))
		case *page.EventJavascriptDialogOpening:
			b.trouble("a dialog: " + event.Message)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.troubles) > 0 {
			t.Errorf("the browser complains: %q", b.troubles)
		}
	})
	b.run(chromedp.EmulateViewport(1280, 900), chromedp.Navigate(address))
	return b
}

func (b *tab) trouble(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, allowed := range b.expected {
		if strings.Contains(text, allowed) {
			return
		}
	}
	b.troubles = append(b.troubles, text)
}

func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.Fatal(err)
	}
}

// eval is the value of a JavaScript expression.
func eval[T any](b *tab, expression string) (value T) {
	b.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.Fatal(err)
	}
	return value
}

// script runs some JavaScript.
func (b *tab) script(code string) {
	b.Helper()
	eval[bool](b, "(() => { "+code+"; return true; })()")
}

// choose takes one of a list.
func (b *tab) choose(list, value string) {
	b.Helper()
	b.script(fmt.Sprintf(`const list = document.querySelector(%q); list.value = %q; list.dispatchEvent(new Event("change"))`, list, value))
}

// becomes waits for a JavaScript expression to be true.
func (b *tab) becomes(expression string) {
	b.Helper()
	for deadline := time.Now().Add(patience); !eval[bool](b, expression); time.Sleep(30 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("not in %v: %s; the page has: %s", patience, expression, eval[string](b, "document.body.innerText"))
		}
	}
}

// shows waits for a text to be seen.
func (b *tab) shows(text string) {
	b.Helper()
	b.becomes(b.shown(text))
}

func (b *tab) hides(text string) {
	b.Helper()
	b.becomes("!" + b.shown(text))
}

// shown is the expression of whether a text is to be seen.
func (b *tab) shown(text string) string {
	b.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		b.Fatal(err)
	}
	return "document.body.innerText.includes(" + string(quoted) + ")"
}

func (b *tab) press(keys ...string) {
	b.Helper()
	for _, key := range keys {
		b.run(chromedp.KeyEvent(key))
	}
}

// tabTo presses Tab until something that a selector finds has the focus, and sees to it that the focus shows at each step.
func (b *tab) tabTo(selector string) {
	b.Helper()
	for range 60 {
		b.press(kb.Tab)
		if !eval[bool](b, "document.activeElement === document.body || getComputedStyle(document.activeElement).outlineStyle !== 'none'") {
			b.Errorf("the focus does not show on %s", eval[string](b, "document.activeElement.outerHTML"))
		}
		if eval[bool](b, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
			return
		}
	}
	b.Fatalf("Tab does not come to %s", selector)
}

// fits sees to it that nothing is wider than a phone. Its window may be: it grows with what is in it.
func (b *tab) fits() {
	b.Helper()
	if wide := eval[int](b, "document.documentElement.scrollWidth - 360"); wide > 0 {
		b.Errorf("it is %d pixels wider than a phone: %s", wide, eval[string](b, `[...document.querySelectorAll("main *")]
			.filter((e) => e.getBoundingClientRect().right > 361).map((e) => e.outerHTML.slice(0, 120)).slice(0, 5).join("\n")`))
	}
}

// named sees to it that all controls, and all else that must have a name, have one in the accessibility tree.
func (b *tab) named(wanted ...string) {
	b.Helper()
	tree, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		b.Fatal(err)
	}
	text := func(v *accessibility.Value) (text string) {
		if v != nil {
			_ = json.Unmarshal(v.Value, &text)
		}
		return text
	}
	roles := map[string]int{}
	for _, n := range tree.Nodes {
		role := text(n.Role)
		if n.Ignored || !slices.Contains([]string{"button", "link", "searchbox", "textbox", "combobox", "checkbox", "image", "table", "columnheader", "rowheader", "dialog", "search", "region"}, role) {
			continue
		}
		roles[role]++
		if strings.TrimSpace(text(n.Name)) == "" {
			b.Errorf("a %s without a name: %v", role, n.BackendDOMNodeID)
		}
	}
	for _, role := range wanted {
		if roles[role] == 0 {
			b.Errorf("there is no %s: %v", role, roles)
		}
	}
}

// narrow makes it a phone.
func (b *tab) narrow() {
	b.Helper()
	b.run(chromedp.EmulateViewport(360, 740, chromedp.EmulateScale(2), chromedp.EmulateMobile))
}

// scheme is which colours the reader likes.
func (b *tab) scheme(name string) {
	b.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
	if err != nil {
		b.Fatal(err)
	}
}

// readable sees to it that texts stand out, in the colours that there are now.
func (b *tab) readable() {
	b.Helper()
	low := eval[[]string](b, `(() => {
		const style = getComputedStyle(document.documentElement);
		const light = (name) => {
			const hex = style.getPropertyValue(name).trim().slice(1);
			const [r, g, b] = [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
			return 0.2126 * r + 0.7152 * g + 0.0722 * b;
		};
		const low = [];
		for (const on of ["--ground", "--card"]) for (const name of ["--text", "--soft", "--accent", "--held", "--waiting", "--bad"]) {
			const [a, b] = [light(on), light(name)].sort((x, y) => y - x);
			const contrast = (a + 0.05) / (b + 0.05);
			if (!(contrast >= 4.5)) low.push(name + " on " + on + ": " + contrast.toFixed(2));
		}
		return low;
	})()`)
	if len(low) > 0 {
		b.Errorf("too little contrast: %v", low)
	}
}

// picture writes what is to be seen, if pictures are wanted.
func (b *tab) picture(name string) {
	b.Helper()
	if *pictures == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*pictures, name+".png"), smaller(b, png), 0o644); err != nil {
		b.Fatal(err)
	}
}

// TestBrowser looks at the page as people do.
func TestBrowser(t *testing.T) {
	chromium := browser(t)
	for _, c := range []struct {
		name string
		look func(*testing.T, context.Context)
	}{
		{"lives", testLives},
		{"hostile", testHostile},
		{"keyboard", testKeyboard},
		{"phone", testPhone},
		{"unlock", testUnlock},
		{"sign in", testSignIn},
		{"below a path", testBelowPath},
		{"away", testAway},
		{"many", testMany},
	} {
		t.Run(c.name, func(t *testing.T) { c.look(t, chromium) })
	}
}

const (
	row    = `[...document.querySelectorAll("#locks tbody tr")].map((r) => r.innerText.replace(/\s+/g, " "))`
	rowFor = `[...document.querySelectorAll("#locks tbody tr")].find((r) => r.innerText.includes(%q))`
)

// testLives changes locks, and the page with them.
func testLives(t *testing.T, chromium context.Context) {
	w := newWorld(t)
	w.serve(w.config())
	b := open(t, chromium, "http://"+w.addr)
	b.shows("There are no locks.")
	billing := newPerson(1, "billing", "web-3")
	w.isHere(billing, 192*time.Second, "orders:42")
	w.holds("orders:42", billing.owner(), time.Hour)
	w.holds("reports", javaOwner, 0)
	b.shows("orders:42")
	b.shows("billing@web-3 pid 4001")
	b.becomes(`/\t[34]m\d\ds\t/.test(document.body.innerText)`)
	b.shows(javaOwner)
	b.shows("no end")
	b.named("link", "table", "columnheader", "region", "searchbox", "combobox", "checkbox", "image")
	b.readable()
	b.becomes(`document.querySelector("#activity svg").getAttribute("aria-label").includes("Held: 2 now")`)

	// Each line of the chart's grid has a label, and one thing is filled.
	b.becomes(`document.querySelectorAll("#activity .grid").length > 1 && document.querySelectorAll("#activity .grid").length === document.querySelectorAll("#activity .axis").length`)
	b.becomes(`document.querySelectorAll("#activity path.line").length === 2 && document.querySelectorAll("#activity path.area").length === 1`)

	// Filters and orders.
	b.run(chromedp.SendKeys("#q", "ORDER"))
	b.hides("reports")
	b.shows("1 lock of 2.")
	b.becomes(`document.querySelector("#says").textContent === "1 lock found"`)
	b.script(`document.querySelector("#q").value = ""`)
	b.choose("#kind", "rw")
	b.shows("No lock is like that.")
	b.choose("#kind", "")
	b.shows("reports")
	b.run(chromedp.Click(`th[data-sort=name] button`))
	b.becomes(`document.querySelector("th[data-sort=name]").getAttribute("aria-sort") === "ascending" && ` + row + `[0].startsWith("orders")`)
	b.run(chromedp.Click(`th[data-sort=held] button`))
	b.becomes(`document.querySelector("th[data-sort=name]").getAttribute("aria-sort") === "none"`)

	// One lock.
	b.run(chromedp.Click(`//a[text()="orders:42"]`))
	b.shows(billing.owner())
	b.becomes(`document.title === "orders:42 - holdfast"`)
	b.shows("Seen in looks since")
	b.shows("The key in Redis expires in ")
	b.becomes(`document.querySelector("#timeline .lane svg")?.getAttribute("aria-label").startsWith("billing@web-3 pid 4001: held it for ")`)
	if eval[bool](b, `!document.querySelector("#unlock").hidden`) {
		t.Error("there is a button to take it away")
	}
	b.named("link", "table", "columnheader", "region", "image")
	b.script(`document.querySelector("#timeline details").open = true`)
	b.becomes(`document.querySelector("#timeline tbody")?.innerText.includes("goes on")`)
	w.do("DEL", "orders:42")
	b.shows("a lock that nobody holds leaves nothing in Redis")
	b.becomes(`document.querySelector("#timeline tbody")?.innerText.includes("given back, or taken away by somebody")`)
	b.run(chromedp.Click("#back"))
	b.hides("orders:42")
	b.shows("reports")
}

// testHostile has names and identities that would like to be something else than text.
func testHostile(t *testing.T, chromium context.Context) {
	w := newWorld(t)
	for i, name := range hostile {
		mallory := newPerson(i, "<b id=evil>"+name, "<svg onload=alert(1)>")
		w.isHere(mallory, time.Minute, name)
		w.holds(name, mallory.owner(), 0)
	}
	cfg := w.config()
	cfg.AllowUnlock = true
	w.serve(cfg)
	b := open(t, chromium, "http://"+w.addr, "400")
	b.becomes(fmt.Sprintf(`document.querySelectorAll("#locks tbody tr").length === %d`, len(hostile)))
	inert := func() {
		t.Helper()
		if evil := eval[int](b, `document.querySelectorAll("main img, main script, main b, #evil, main svg[onload], dialog img, dialog b").length`); evil > 0 {
			t.Errorf("%d elements came from Redis", evil)
		}
		if title := eval[string](b, "document.title"); strings.HasPrefix(title, "broken in") {
			t.Errorf("a name has run")
		}
	}
	inert()
	b.shows(`<img src=x onerror="document.title='broken in'">`)
	b.shows(`\u202egnp.exe\x00\x1b[2J`)
	b.shows(`\xff\xfe not UTF-8`)
	for _, name := range hostile {
		b.script(fmt.Sprintf(`location.hash = "#/lock/%s"`, idOf(name)))
		b.becomes(`document.querySelector("#holders tbody tr") !== null && document.querySelector("#timeline .lane") !== null && !document.querySelector("#unlock").hidden`)
		if got := eval[string](b, `document.querySelector("#lock-title").textContent`); got != present.Safe(name) {
			t.Errorf("the title is %q", got)
		}
		b.run(chromedp.Click("#unlock"))
		b.shows("This hits whoever holds it")
		inert()
		b.press(kb.Escape)
		b.becomes(`!document.querySelector("#confirm").open`)
	}
	for hash, title := range map[string]string{"#/lock/%3Cimg%3E": "<img>", `#/lock/<img src=x>"\\`: `<img src=x>"\\`, "#/lock/a b": "a b"} {
		b.script(fmt.Sprintf("location.hash = %q", hash))
		b.becomes(fmt.Sprintf(`document.querySelector("#lock-title").textContent === %q && !document.querySelector("#missing").hidden`, title))
		b.script(`location.hash = "#javascript:alert(1)"`)
		b.becomes(`!document.querySelector("#list-view").hidden`)
	}
	for _, hash := range []string{"#/lock/", "#/lock/%zz", "#/lock/100%"} { // an error, and no lock
		b.script(fmt.Sprintf("location.hash = %q", hash))
		b.becomes(`!document.querySelector("#banner").hidden && document.querySelector("#banner").textContent.includes("no lock's address")`)
		if eval[bool](b, `!document.querySelector("#lock-body").hidden || !document.querySelector("#missing").hidden`) {
			t.Errorf("%s shows a lock", hash)
		}
	}
	// What the policy forbids is forbidden.
	if eval[bool](b, `(() => { try { document.createElement("p").innerHTML = "<i>x</i>"; return true; } catch { return false; } })()`) {
		t.Error("the page could make HTML from text")
	}
	b.mu.Lock()
	b.troubles = slices.DeleteFunc(b.troubles, func(s string) bool { return strings.Contains(s, "TrustedHTML") })
	b.mu.Unlock()
}

// testKeyboard goes to a lock and back without a mouse.
func testKeyboard(t *testing.T, chromium context.Context) {
	w := served(t, mayUnlock)
	w.holds("alpha", javaOwner, 0)
	w.holds("beta", javaOwner, 0)
	b := open(t, chromium, "http://"+w.addr)
	b.shows("beta")
	b.press(kb.Tab)
	if !eval[bool](b, `document.activeElement.id === "skip" && document.activeElement.getBoundingClientRect().left >= 0`) {
		t.Error("the first step is not to skip what is on top, or does not show")
	}
	b.press(kb.Enter)
	b.tabTo("#q")
	b.tabTo(`#locks a[href$="` + idOf("beta") + `"]`)
	// It keeps the focus while the table changes.
	w.holds("aardvark", javaOwner, 0)
	b.shows("aardvark")
	if got := eval[string](b, "document.activeElement.textContent"); got != "beta" {
		t.Errorf("the focus is on %q", got)
	}
	b.press(kb.Enter)
	b.becomes(`document.activeElement.id === "lock-title" && document.activeElement.textContent === "beta"`)
	b.becomes(`!document.querySelector("#unlock").hidden`)
	b.tabTo("#unlock")
	b.press(kb.Enter)
	b.becomes(`document.querySelector("#confirm").open && document.activeElement.id === "keep"`)
	b.named("dialog", "button")
	b.press(kb.Escape)
	b.becomes(`!document.querySelector("#confirm").open && document.activeElement.id === "unlock"`)
	b.run(chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(kb.ModifierShift)))
	b.becomes(`document.activeElement.id === "back"`)
	b.press(kb.Enter)
	b.becomes(`document.activeElement.textContent === "beta" && document.activeElement.matches("#locks a")`)
}

// testPhone is narrow, and dark.
func testPhone(t *testing.T, chromium context.Context) {
	w := newWorld(t)
	for i, name := range append([]string{"orders:42"}, hostile...) {
		p := newPerson(i, "billing", "web-3.eu-central.example.com")
		w.isHere(p, time.Minute, name)
		w.holds(name, p.owner(), 0)
	}
	w.serve(w.config())
	b := open(t, chromium, "http://"+w.addr)
	b.narrow()
	b.shows("orders:42")
	b.fits()
	if !eval[bool](b, fmt.Sprintf(rowFor, "orders:42")+`.innerText.includes("billing@web-3")`) {
		t.Error("a narrow table does not say who holds a lock")
	}
	light := eval[string](b, "getComputedStyle(document.body).backgroundColor")
	b.scheme("dark")
	if dark := eval[string](b, "getComputedStyle(document.body).backgroundColor"); dark == light {
		t.Errorf("it is %s by day and by night", dark)
	}
	b.readable()
	for _, name := range []string{"orders:42", hostile[4]} {
		b.script(fmt.Sprintf(`location.hash = "#/lock/%s"`, idOf(name)))
		b.becomes(`document.querySelector("#timeline .lane") !== null`)
		b.script(`document.querySelectorAll("details").forEach((d) => { d.open = true; })`)
		b.becomes(`document.querySelector("#timeline tbody tr") !== null`)
		b.fits()
	}
}

// testUnlock takes a lock away, after it has changed hands.
func testUnlock(t *testing.T, chromium context.Context) {
	w := newWorld(t)
	billing, reports := newPerson(1, "billing", "web-3"), newPerson(2, "reports", "web-4")
	w.isHere(billing, time.Minute, "job")
	w.isHere(reports, time.Minute, "job")
	w.holds("job", billing.owner(), 0)
	cfg := w.config()
	cfg.AllowUnlock = true
	w.serve(cfg)
	b := open(t, chromium, "http://"+w.addr+"/#/lock/"+idOf("job"), "409")
	b.becomes(`!document.querySelector("#unlock").hidden`)
	b.run(chromedp.Click("#unlock"))
	b.shows(`the mutex "job" is held by billing@web-3 pid 4001`)
	w.holds("job", reports.owner(), 0)
	b.run(chromedp.Click("#take"))
	b.shows("nothing was done, since it has changed hands meanwhile: the mutex \"job\" is held by reports@web-4")
	if w.rdb.Exists(t.Context(), "job").Val() != 1 {
		t.Fatal("it was taken from somebody else")
	}
	b.run(chromedp.Click("#keep"))
	b.becomes(`document.querySelector("#holders").innerText.includes("reports@web-4")`)
	b.run(chromedp.Click("#unlock"))
	b.shows("held by reports@web-4")
	b.run(chromedp.Click("#take"))
	b.becomes(`!document.querySelector("#confirm").open && document.querySelector("#says").textContent === "It was taken away."`)
	if w.rdb.Exists(t.Context(), "job").Val() != 0 {
		t.Error("it was not taken away")
	}
	b.run(chromedp.Click("#back"))
	b.shows("taken away from reports@web-4 pid 4002")
	if said := w.hasSaid(); !strings.Contains(said, `job was taken away by the dashboard: the mutex "job" is held by reports@web-4`) {
		t.Errorf("it has said %q", said)
	}
}

// testSignIn wants the token.
func testSignIn(t *testing.T, chromium context.Context) {
	const token = "correct horse battery"
	w := served(t, func(c *Config) { c.Token = token })
	b := open(t, chromium, "http://"+w.addr, "401")
	b.becomes(`document.activeElement.id === "token"`)
	b.run(chromedp.SendKeys("#token", "guessed"+kb.Enter))
	b.shows("That is not the token.")
	b.script(`document.querySelector("#token").value = ""`)
	b.run(chromedp.SendKeys("#token", token+kb.Enter))
	b.shows(javaOwner)
	if cookies := eval[string](b, "document.cookie"); cookies != "" {
		t.Errorf("scripts see the session: %s", cookies)
	}
	if kept := eval[bool](b, fmt.Sprintf("location.href.includes(%q) || document.documentElement.outerHTML.includes(%q)", token, token)); kept {
		t.Error("the page keeps the token")
	}
	b.run(chromedp.Reload())
	b.shows(javaOwner)
	b.run(chromedp.Click("#sign-out"))
	b.shows("The token of this dashboard")
	b.run(chromedp.Reload())
	b.shows("The token of this dashboard")
}

// testBelowPath signs in, reads, and takes a lock away below a path of a proxy that replaces Host, with and without the slash.
func testBelowPath(t *testing.T, chromium context.Context) {
	const token = "correct horse battery staple"
	for _, base := range []string{"", "/locks"} {
		w := newWorld(t)
		w.holds("job", javaOwner, 0)
		proxy := httptest.NewUnstartedServer(nil)
		proxy.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			front{prefix: "/locks", strips: base == "", addsNoSlash: base != ""}.handler(w.addr).ServeHTTP(rw, r)
		})
		name := proxy.Listener.Addr().String()
		cfg := w.config()
		cfg.Token, cfg.AllowUnlock, cfg.Hosts, cfg.BasePath = token, true, []string{name}, base
		w.serve(cfg)
		proxy.Start()
		defer proxy.Close()
		page := "http://" + name + "/locks"
		if base == "" {
			page += "/"
		}
		b := open(t, chromium, page, "401")
		b.shows("The token of this dashboard")
		b.run(chromedp.SendKeys("#token", token+kb.Enter))
		b.shows(javaOwner)
		b.run(chromedp.Click(`//a[text()="job"]`))
		b.shows("Take the lock away")
		if at := eval[string](b, "location.href"); at != page+"#/lock/job" {
			t.Errorf("the page of the lock is at %s", at)
		}
		b.run(chromedp.Click("#unlock"), chromedp.Click("#take"))
		b.shows("Nobody holds it")
		b.run(chromedp.Click("#sign-out"))
		b.shows("The token of this dashboard")
	}
}

// testAway loses Redis for a while.
func testAway(t *testing.T, chromium context.Context) {
	w := served(t)
	b := open(t, chromium, "http://"+w.addr, "502")
	b.shows("job")
	w.proxy.Refuse(true)
	w.proxy.Cut()
	b.becomes(`!document.querySelector("#banner").hidden && /^Redis cannot be used since .{4,16}, for [0-9.]+s: /.test(document.querySelector("#banner").innerText)`)
	b.becomes(`document.querySelector("#says").textContent.startsWith("Redis cannot be used: ")`)
	b.shows("job")
	b.becomes(`/^as of \d/.test(document.querySelector("#fresh").innerText)`)
	b.run(chromedp.Click(`//a[text()="job"]`))
	b.becomes(`!document.querySelector("#banner").hidden`)
	w.proxy.Refuse(false)
	b.becomes(`document.querySelector("#banner").hidden && document.querySelector("#says").textContent === "It works again."`)
	b.shows(javaOwner)
	b.run(chromedp.Click("#back"))
	w.holds("another", javaOwner, 0)
	b.shows("another") // so the table is a new one
	if !eval[bool](b, `document.querySelector("#banner").hidden`) {
		t.Error("it still says that Redis is away")
	}
	eventually(t, "it says that Redis answers", func() bool { return strings.Contains(w.hasSaid(), "answers again, after ") })
	if said := w.hasSaid(); strings.Count(said, "\n") != 2 {
		t.Errorf("it has said %q", said)
	}
}

// testMany has more locks than are kept, and more than are listed.
func testMany(t *testing.T, chromium context.Context) {
	w := newWorld(t)
	pipe := w.rdb.Pipeline()
	for i := range 3000 {
		pipe.HSet(t.Context(), fmt.Sprintf("lock:%04d", i), javaOwner, "1")
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg := w.config()
	cfg.Most = 500
	w.serve(cfg)
	b := open(t, chromium, "http://"+w.addr)
	b.shows("There are more than 500 locks; only those that were found first are shown")
	b.shows("The first 100 of 500 are listed.")
	b.becomes(`document.querySelectorAll("#locks tbody tr").length === 100`)
	b.run(chromedp.Click("#show-more"))
	b.becomes(`document.querySelectorAll("#locks tbody tr").length === 300`)
}

// TestPictures makes the pictures of docs/dashboard.md.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("-pictures is not given")
	}
	takePictures(t, newWorld(t), browser(t))
}
