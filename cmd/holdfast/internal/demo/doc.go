// Package demo shows what the locks do, in words and live, scene by scene, and
// checks what it shows: whatever does not come out as promised is said, and
// makes the demo fail.
//
// A scene is a function that talks to a [Stage], of which there are two: lines
// of text, and a picture on a terminal that changes. Run works in the goroutine
// that calls it; every goroutine of a scene ends before the scene does.
package demo
