// Package demo shows what the locks do, in words and live, scene by scene, and
// checks what it shows: whatever does not come out as promised is said, and
// makes the demo fail.
//
// A scene is a script of a play: a function that does one thing after the other, says what comes of it,
// and ends where something is not as promised. So it has no errors to pass on: [must], [check] and [promise] panic
// with a [broken], which [show.perform] makes an error of. They are for the goroutine of the scene alone.
//
// A [Stage] shows it, of which there are two: lines of text, and a picture on a terminal that changes. Run works in
// the goroutine that calls it; every goroutine of a scene ends before the scene does, or with its clients.
package demo
