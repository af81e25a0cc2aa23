package wire

// What is announced on a latch's channel.
const (
	// Zero says that the count has come to zero.
	Zero = "0"
	// NewCount says that a latch has been made, or deleted.
	NewCount = "1"
)

// LatchChannel is where a latch announces. Its braces stand around the name
// even if that has some of its own; see [LatchFits].
func LatchChannel(name string) string { return "redisson_countdownlatch__channel__{" + name + "}" }

// LatchFits reports whether the channel of a latch lies in the slot of its name,
// as a cluster wants it.
func LatchFits(name string) bool { return Slot(LatchChannel(name)) == Slot(name) }

// LatchZero is the key of when a latch came to zero last. Redisson does not know
// it.
func LatchZero(name string) string { return Prefixed("holdfast_zero", name) }
