package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/force"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
)

const (
	// rowsShown is how many locks the table has unless more are asked for, and mostRows how many it has at most.
	rowsShown = 100
	mostRows  = 1000
	// longestShown is how much of a text the table has.
	longestShown = 120
	// mostListed is how many holders, and how many waiters, the page of a lock lists.
	mostListed = 100
)

// What the page gets. All texts are harmless; spans of time are ms, and -1 stands for what is not known; moments are ms ago.
type (
	statusView struct {
		Server      string `json:"server"`
		AllowUnlock bool   `json:"allow_unlock"`
		Session     bool   `json:"session"`
		Pattern     string `json:"pattern"`
		Kinds       string `json:"kinds"`
		HeldOnly    bool   `json:"held_only"`
		Interval    int64  `json:"interval"`
		Started     int64  `json:"started"`
		Next        int64  `json:"next"` // when it makes sense to ask again
		Age         int64  `json:"age"`  // of what is shown
		Took        int64  `json:"took"`
		Away        string `json:"away"` // why Redis cannot be used; empty: it can
		AwayFor     int64  `json:"away_for"`
	}
	locksView struct {
		statusView

		Kept      int         `json:"kept"`
		More      bool        `json:"more"`     // than are kept
		TooLong   int         `json:"too_long"` // names that are none of a lock
		Matching  int         `json:"matching"`
		Held      int         `json:"held"`
		Waiting   int         `json:"waiting"`
		Contended int         `json:"contended"` // locks that somebody waits for
		RanOut    int         `json:"ran_out"`
		Rows      []rowView   `json:"rows"`
		Samples   [][3]int64  `json:"samples"` // ms ago, held, waiting
		Events    []eventView `json:"events"`
	}
	rowView struct {
		ID      string `json:"id"`
		Name    string `json:"name"`
		Kind    string `json:"kind"`
		State   string `json:"state"`
		IsHeld  bool   `json:"is_held"`
		Holder  string `json:"holder"`
		Held    int64  `json:"held"`
		Left    string `json:"left"`
		Waiting int    `json:"waiting"`
	}
	eventView struct {
		Seq  int    `json:"seq"`
		ID   string `json:"id"`
		Name string `json:"name"`
		Who  string `json:"who"`
		How  ending `json:"how"`
		Ago  int64  `json:"ago"`
	}
	lockView struct {
		statusView

		ID          string       `json:"id"`
		Name        string       `json:"name"`
		Missing     string       `json:"missing"` // why there is nothing to show
		About       string       `json:"about"`
		State       string       `json:"state"`
		IsHeld      bool         `json:"is_held"`
		Key         string       `json:"key"`
		Token       string       `json:"token"`
		Permits     string       `json:"permits"`
		Line        int          `json:"line"`
		AllInLine   bool         `json:"all_in_line"`
		Waiting     int          `json:"waiting"`
		HolderCount int          `json:"holder_count"`
		Holders     []holderView `json:"holders"`
		Waiters     []waiterView `json:"waiters"`
		Victims     string       `json:"victims"` // whom it hits if it is taken away; empty: it cannot be
		Seen        string       `json:"seen"`    // stands for them
		Trail       *trailView   `json:"trail"`
		Full        bool         `json:"full"` // no more locks are followed
	}
	holderView struct {
		Who   string `json:"who"`
		Owner string `json:"owner"` // as it stands in Redis, if that is not Who
		Mode  string `json:"mode"`
		Count int64  `json:"count"`
		Held  int64  `json:"held"`
		Left  string `json:"left"`
	}
	waiterView struct {
		Who    string `json:"who"`
		Owner  string `json:"owner"`
		Note   string `json:"note"`
		Waited int64  `json:"waited"` // seen to wait for so long
	}
	trailView struct {
		First       int64      `json:"first"`
		Followed    int64      `json:"followed"`
		Contended   int64      `json:"contended"`
		LongestWait int64      `json:"longest_wait"`
		WaitingFor  int64      `json:"waiting_for"` // without a break
		MostWaiting int        `json:"most_waiting"`
		HoldsSeen   int        `json:"holds_seen"`
		RanOut      int        `json:"ran_out"`
		Samples     [][3]int64 `json:"samples"`
		Holds       []spanView `json:"holds"`
		Waits       []spanView `json:"waits"`
	}
	// spanView is a hold or a wait: from when to when, and how it has ended; To is -1 for one that goes on.
	spanView struct {
		Who  string `json:"who"`
		Mode string `json:"mode,omitempty"`
		From int64  `json:"from"`
		To   int64  `json:"to"`
		How  ending `json:"how"`
		Seen bool   `json:"seen"` // From is when it was first seen, and not when it began
	}
)

// ago is how long ago a moment was, in ms.
func ago(now, t time.Time) int64 { return max(now.Sub(t).Milliseconds(), 0) }

// millis is a duration in ms, and -1 if it is not known, which zero stands for.
func millis(d time.Duration) int64 {
	if d == 0 {
		return -1
	}
	return d.Milliseconds()
}

// cut shortens a text in its middle.
func cut(text string) string { return present.Fit(text, longestShown) }

// status says how the observer stands. The caller holds o.mu.
func (o *observer) status() statusView {
	now := time.Now()
	s := statusView{
		Server: present.Safe(o.Server), AllowUnlock: o.AllowUnlock, Session: o.Token != "",
		Pattern: present.Safe(o.Options.Match), HeldOnly: o.Options.Held, Interval: o.Interval.Milliseconds(),
		Started: ago(now, o.started), Next: max(o.next.Sub(now), o.Interval/4).Milliseconds(), Age: -1, Took: o.took.Milliseconds(),
	}
	kinds := make([]string, len(o.Options.Kinds))
	for i, kind := range o.Options.Kinds {
		kinds[i] = string(kind)
	}
	s.Kinds = strings.Join(kinds, ", ")
	if o.looks > 0 {
		s.Age = ago(now, o.looked)
	}
	if o.away != nil {
		s.Away, s.AwayFor = present.Safe(o.Explain(o.away)), ago(now, o.since)
	}
	return s
}

// locks answers with the table.
func (h *handler) locks(w http.ResponseWriter, r *http.Request) {
	answer(w, http.StatusOK, h.table(r.URL.Query()))
}

// wanted is what the reader has asked for.
func wanted(query url.Values, all []entry) []survey.Lock {
	text, kind, held := strings.ToLower(query.Get("q")), query.Get("kind"), query.Get("held") != ""
	var found []survey.Lock
	for _, e := range all {
		if (text == "" || strings.Contains(e.lower, text)) && (kind == "" || string(e.Kind) == kind) && (!held || e.State == survey.Held) {
			found = append(found, e.Lock)
		}
	}
	order := present.Order(query.Get("sort"))
	if !slices.Contains(present.Orders(), order) {
		order = present.ByWaiting
	}
	order.Sort(found)
	return found
}

func (o *observer) table(query url.Values) locksView {
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil || limit < 1 {
		limit = rowsShown
	}
	v, all := o.overview()
	for _, e := range all {
		if e.State == survey.Held {
			v.Held++
		}
		if e.Waiting > 0 {
			v.Contended++
		}
		v.Waiting += e.Waiting
	}
	found := wanted(query, all)
	v.Matching = len(found)
	for _, l := range found[:min(len(found), limit, mostRows)] {
		v.Rows = append(v.Rows, rowOf(l))
	}
	return v
}

// overview is what the page has beside the table, and the locks that were found, which nobody changes any more.
func (o *observer) overview() (v locksView, all []entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.redisNow()
	v = locksView{
		statusView: o.status(), Kept: len(o.entries), More: o.more, TooLong: o.tooLong, RanOut: o.history.lost,
		Rows: []rowView{}, Samples: samplesOf(o.history.samples, now), Events: []eventView{},
	}
	for _, e := range slices.Backward(o.history.events) {
		v.Events = append(v.Events, eventView{e.seq, idOf(e.name), cut(present.Safe(e.name)), cut(e.who), e.how, ago(now, e.at)})
	}
	return v, o.entries
}

func rowOf(l survey.Lock) rowView {
	return rowView{
		ID: idOf(l.Name), Name: cut(present.Safe(l.Name)), Kind: present.KindOf(l), State: present.StateOf(l), IsHeld: l.State == survey.Held,
		Holder: cut(present.HolderOf(l)), Held: millis(l.Longest()), Left: present.LeftOf(l), Waiting: l.Waiting,
	}
}

func samplesOf(all []sample, now time.Time) [][3]int64 {
	out := make([][3]int64, len(all))
	for i, s := range all {
		out[i] = [3]int64{ago(now, s.at), int64(s.held), int64(s.waiting)}
	}
	return out
}

// page is the page of one lock.
func (o *observer) page(name string, g glance) lockView {
	o.mu.Lock()
	defer o.mu.Unlock()
	v := lockView{
		statusView: o.status(), ID: idOf(name), Name: present.Safe(name), Holders: []holderView{}, Waiters: []waiterView{},
		Full: o.history.full,
	}
	v.Age, v.Took, v.Away, v.Next = ago(time.Now(), g.when), 0, "", v.Interval
	t := o.history.trails[name]
	switch {
	case errors.Is(g.err, survey.ErrNotFound):
		v.Missing = "Nobody holds it, and nobody is known to wait for it: a lock that nobody holds leaves nothing in Redis."
	case g.err != nil:
		v.Missing = "It is another kind of object in Redis, and no lock."
	default:
		v.fill(g.lock, t)
	}
	if t != nil {
		v.Trail = t.view(o.redisNow())
	}
	return v
}

// fill adds what was read of the lock.
func (v *lockView) fill(l survey.Lock, t *trail) {
	v.About, v.State, v.IsHeld = present.About(l), present.StateOf(l), l.State == survey.Held
	v.Line, v.AllInLine, v.Waiting, v.HolderCount = l.Line, l.AllInLine(), l.Waiting, l.HolderCount
	v.Key, v.Permits = present.Expiry(l), present.PermitsOf(l)
	if l.Token > 0 {
		v.Token = strconv.FormatInt(l.Token, 10)
	}
	for _, h := range l.Holders[:min(len(l.Holders), mostListed)] {
		one := holderView{Who: present.Who(h.Who, h.Owner), Mode: h.Mode, Count: h.Count, Held: millis(l.HeldFor(h)), Left: present.Span(h.TTL)}
		if !h.Who.IsZero() {
			one.Owner = present.Safe(h.Owner)
		}
		v.Holders = append(v.Holders, one)
	}
	for _, w := range l.Waiters[:min(len(l.Waiters), mostListed)] {
		v.Waiters = append(v.Waiters, waiterOf(w, l.At, t))
	}
	if force.Possible(l) && l.State == survey.Held {
		v.Victims, v.Seen = force.Victims(l), force.Holders(l)
	}
}

func waiterOf(w survey.Waiter, at time.Time, t *trail) waiterView {
	one := waiterView{Who: present.Who(w.Who, w.Owner), Note: present.WhatFor(w), Waited: -1}
	if !w.Who.IsZero() {
		one.Owner = present.Safe(w.Owner)
	}
	switch {
	case !w.Since.IsZero():
		one.Waited = ago(at, w.Since)
		return one
	case t == nil:
		return one
	}
	if i := slices.IndexFunc(t.waits, func(seen *span) bool { return seen.owner == w.Owner }); i >= 0 {
		one.Waited = ago(at, t.waits[i].first)
	}
	return one
}

// view is what was seen of a lock.
func (t *trail) view(now time.Time) *trailView {
	v := &trailView{
		First: ago(now, t.first), Followed: t.followed.Milliseconds(), Contended: t.contended.Milliseconds(),
		LongestWait: t.longestWait.Milliseconds(), WaitingFor: -1, MostWaiting: t.mostWaiting, HoldsSeen: t.holdsSeen, RanOut: t.lost,
		Samples: samplesOf(t.samples, now),
		Holds:   spansOf(now, t.ended, t.holds), Waits: spansOf(now, t.endedWaits, t.waits),
	}
	if !t.waitingSince.IsZero() {
		v.WaitingFor = ago(t.last, t.waitingSince)
	}
	return v
}

// spansOf are those that have ended, and those that go on.
func spansOf(now time.Time, ended, lasting []*span) []spanView {
	all := slices.Concat(ended, lasting)
	views := make([]spanView, 0, len(all))
	for _, s := range all {
		one := spanView{Who: s.who, Mode: s.mode, From: ago(now, s.began()), To: -1, How: s.how, Seen: s.since.IsZero()}
		if s.how != running {
			one.To = ago(now, s.gone)
		}
		views = append(views, one)
	}
	return views
}

// metrics answers with what the last look has found, in the text format of Prometheus. No name of a lock is in it. While Redis is
// away there are no locks in it, rather than old ones.
func (h *handler) metrics(w http.ResponseWriter, _ *http.Request) {
	h.mu.Lock()
	up, seen, looked, took, lost, entries := h.away == nil && h.looks > 0, h.looks > 0, h.looked, h.took, h.history.lost, h.entries
	h.mu.Unlock()
	var text strings.Builder
	head := func(name, kind, help string) {
		fmt.Fprintf(&text, "# HELP holdfast_dashboard_%s %s\n# TYPE holdfast_dashboard_%[1]s %[3]s\n", name, help, kind)
	}
	put := func(name, kind, help string, value float64) {
		head(name, kind, help)
		fmt.Fprintf(&text, "holdfast_dashboard_%s %v\n", name, value)
	}
	put("up", "gauge", "Whether the last look at Redis was a success.", map[bool]float64{true: 1}[up])
	put("leases_ran_out_total", "counter", "How many holds were seen to end with their lease.", float64(lost))
	if seen {
		put("last_look_timestamp_seconds", "gauge", "When the last look ended that was a success.", float64(looked.UnixMilli())/1000)
		put("look_duration_seconds", "gauge", "How long that look took.", took.Seconds())
	}
	if up {
		longest := 0.0
		for _, e := range entries {
			longest = max(longest, e.Longest().Seconds())
		}
		put("longest_hold_seconds", "gauge", "For how long the lock has been held that has been held longest, as far as that is known.", longest)
		for _, g := range gauges {
			byKind := map[survey.Kind]int{}
			for _, e := range entries {
				byKind[e.Kind] += g.of(e.Lock)
			}
			head(g.name, "gauge", g.help)
			for _, kind := range survey.Kinds() {
				fmt.Fprintf(&text, "holdfast_dashboard_%s{kind=%q} %d\n", g.name, kind, byKind[kind])
			}
		}
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write([]byte(text.String())) // who has asked may have gone
}

// gauges are what is added up over the locks of each kind.
var gauges = []struct {
	name, help string
	of         func(l survey.Lock) int
}{
	{"locks", "How many locks Redis shows.", func(survey.Lock) int { return 1 }},
	{"held", "How many of them somebody holds.", func(l survey.Lock) int { return one(l.State == survey.Held) }},
	{"waited_for", "How many of them somebody waits for.", func(l survey.Lock) int { return one(l.Waiting > 0) }},
	{"waiting", "How many wait, as far as that is known.", func(l survey.Lock) int { return l.Waiting }},
}

// one counts what is so.
func one(so bool) int {
	if so {
		return 1
	}
	return 0
}
