package doctor

import "fmt"

// Severity is how bad a finding is.
type Severity string

// The severities, from the best to the worst.
const (
	Pass    Severity = "ok"
	Unknown Severity = "unknown" // the server does not say, which is no failure
	Warning Severity = "warning"
	Failure Severity = "failure"
)

var order = map[Severity]int{Pass: 0, Unknown: 1, Warning: 2, Failure: 3}

// worse reports whether s is worse than other.
func (s Severity) worse(other Severity) bool { return order[s] > order[other] }

// Finding is what a check has found.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	// Where are the nodes that it is about; none if it is about all of them.
	Where []string `json:"where,omitempty"`
	// Found and Do are a sentence each: what there is, and what to do about it.
	Found string `json:"found"`
	Do    string `json:"do,omitempty"`
}

// at says which node the finding is about.
func (f Finding) at(n *node) Finding {
	f.Where = []string{n.addr}
	return f
}

func pass(format string, args ...any) Finding {
	return Finding{Severity: Pass, Found: fmt.Sprintf(format, args...)}
}

func unknown(why string) Finding {
	return Finding{Severity: Unknown, Found: why, Do: "Run it once as a user who may, or look for yourself."}
}

// late is what is not known because the time was over.
func late() Finding {
	return Finding{Severity: Unknown, Found: "there was no time for it", Do: "Give it more with --timeout, or look why the server is slow."}
}

func warn(do, format string, args ...any) Finding {
	return Finding{Severity: Warning, Do: do, Found: fmt.Sprintf(format, args...)}
}

func fail(do, format string, args ...any) Finding {
	return Finding{Severity: Failure, Do: do, Found: fmt.Sprintf(format, args...)}
}

// merge makes one finding of those that say the same of several nodes. all is how many nodes
// there are.
func merge(findings []Finding, all int) (merged []Finding) {
	for _, f := range findings {
		known := false
		for i := range merged {
			if m := &merged[i]; m.Severity == f.Severity && m.Found == f.Found && m.Do == f.Do {
				m.Where, known = append(m.Where, f.Where...), true
				break
			}
		}
		if !known {
			merged = append(merged, f)
		}
	}
	for i := range merged {
		if len(merged[i].Where) == all {
			merged[i].Where = nil
		}
	}
	return merged
}
