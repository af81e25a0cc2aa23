package demo

// Stage is where the demo is shown.
type Stage interface {
	// Title begins a scene.
	Title(text string)
	// Say writes a paragraph: what the reader sees, and why it matters.
	Say(text string)
	// Point writes a result.
	Point(text string)
	// Live shows how things stand: a picture that replaces the one before, or,
	// now and then, the line.
	Live(picture []string, line string)
	// Keep ends a live picture and leaves its last state to be read.
	Keep()
	// Width is how many columns a picture may have.
	Width() int
	// Mark emphasises a word of a picture.
	Mark(kind Mark, text string) string
}

// Mark is a reason to emphasise a word.
type Mark int

// The reasons.
const (
	Good Mark = iota
	Bad
	Dim
)
