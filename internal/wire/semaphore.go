package wire

// SemaphoreChannel is where both kinds of semaphore announce permits. The payload
// is how many are available now, never less than 0.
func SemaphoreChannel(name string) string { return Prefixed("redisson_sc", name) }

// Permits is the key of the permits that are held, with the times at which they
// expire.
func Permits(name string) string { return Suffixed(name, "timeout") }

// Calls is the key, our own, of the calls that have had their effect lately.
func Calls(name string) string { return Prefixed("holdfast_calls", name) }

// Lost is the channel, our own, on which the holders of permits hear that others
// have given some back by their ids, or have changed their leases.
func Lost(name string) string { return Prefixed("holdfast_lost", name) }
