package dashboard

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// takePictures has a little fleet at work for a while, and takes pictures of it.
func takePictures(t *testing.T, w *world, chromium context.Context) {
	t.Helper()
	cfg := w.config()
	cfg.AllowUnlock, cfg.Interval, cfg.Server = true, 250*time.Millisecond, "redis.example.com:6379"
	w.serve(cfg)
	var fleet []person
	for i, who := range [][2]string{{"billing", "web-1"}, {"billing", "web-2"}, {"import", "db-1"}, {"convert", "web-1"}, {"convert", "web-3"}, {"nightly", "web-2"}} {
		fleet = append(fleet, newPerson(i+1, who[0], who[1]))
	}
	w.isHere(fleet[2], 192*time.Second, "warehouse")
	w.isHere(fleet[5], 12*time.Minute, "nightly")
	w.do("HSET", "warehouse", "mode", "write", fleet[2].owner()+":write", "1")
	w.holds("nightly", fleet[5].owner(), time.Hour)
	w.holds("sessions:cleanup", javaOwner, time.Hour)
	w.do("SET", "conversions", "1")
	for i, p := range fleet[3:5] {
		id := p.uuid[:8] + p.uuid[9:13] + p.uuid[14:18] + fmt.Sprintf("%016x", i+1)
		w.do("EVAL", "redis.call('ZADD', '{conversions}:timeout', ARGV[2], (ARGV[1]:gsub('..', function(h) return string.char(tonumber(h, 16)) end)))", "0",
			id, time.Now().Add(80*time.Second).UnixMilli())
	}
	quiet := []string{"nightly", "warehouse", "sessions:cleanup", "invoices:2026-11", "mail:digest", "search:reindex", "users:7731"}
	for n, name := range quiet[3:] {
		w.isHere(fleet[n], time.Duration(n*n+1)*37*time.Second, name)
		w.holds(name, fleet[n].owner(), time.Hour)
	}
	for range 3 {
		listening := w.client(w.server.Addr()).Subscribe(t.Context(), "redisson_lock__channel:{nightly}")
		defer listening.Close()
		if _, err := listening.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// A fair lock goes round, and one of its holders dies.
	for i := range 44 {
		holder := fleet[i%5]
		line := []person{fleet[(i+1)%5], fleet[(i+2)%5], fleet[(i+3)%5]}[:1+(i/3)%3]
		lease := 30 * time.Second
		if i == 24 {
			lease = 2500 * time.Millisecond
		}
		for n, name := range quiet {
			w.do("PEXPIRE", name, 29_000-int64((i+4*n)%10)*1000)
		}
		w.isHere(holder, 0, "orders:42")
		w.do("DEL", "redisson_lock_queue:{orders:42}", "redisson_lock_timeout:{orders:42}")
		for n, p := range line {
			w.isHere(p, time.Second)
			w.do("RPUSH", "redisson_lock_queue:{orders:42}", p.owner())
			w.do("ZADD", "redisson_lock_timeout:{orders:42}", time.Now().Add(time.Minute).UnixMilli()+int64(n), p.owner())
		}
		w.holds("orders:42", holder.owner(), lease)
		pause := time.Duration(500+(i*7%5)*350) * time.Millisecond
		if i == 24 {
			pause = 2600 * time.Millisecond
		}
		if i == 43 {
			break
		}
		time.Sleep(pause)
	}
	b := open(t, chromium, "http://"+w.addr)
	b.run(chromedp.EmulateViewport(1200, 1010))
	b.shows("orders:42")
	b.shows("lease of")
	b.picture("light")
	b.scheme("dark")
	b.picture("dark")
	b.narrow()
	b.script(`document.querySelector("#table-title").scrollIntoView()`)
	b.picture("phone")
	b.run(chromedp.EmulateViewport(1200, 1330))
	b.scheme("light")
	b.run(chromedp.Click(`//a[text()="orders:42"]`))
	b.becomes(`document.querySelectorAll("#timeline .lane").length > 4`)
	b.script(`document.activeElement.blur(); scrollTo(0, 0)`)
	b.picture("lock")
	b.run(chromedp.EmulateViewport(900, 520), chromedp.Click("#unlock"))
	b.shows("This hits whoever holds it")
	b.picture("unlock")
	b.narrow()
	b.press("\x1b")
	b.script(`document.querySelector("#timeline-title").scrollIntoView()`)
	b.picture("lock-phone")
}

// smaller writes a picture with the 256 colours that it has most of.
func smaller(b *tab, picture []byte) []byte {
	b.Helper()
	full, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		b.Fatal(err)
	}
	size := full.Bounds()
	counts := map[color.Color]int{}
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			counts[full.At(x, y)]++
		}
	}
	var colours color.Palette
	for c := range counts {
		colours = append(colours, c)
	}
	slices.SortFunc(colours, func(a, b color.Color) int { return counts[b] - counts[a] })
	few := image.NewPaletted(size, colours[:min(len(colours), 256)])
	draw.Draw(few, size, full, size.Min, draw.Src)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}
