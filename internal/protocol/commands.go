package protocol

import (
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// Commands are the commands that some scripts call, each once and in order: for the keys of a kind, for the fencing token, and for the
// waitlist.
type Commands struct{ Own, Token, Waitlist []string }

// Commands returns the commands that the scripts of a kind call, by their text.
func (k *Kind) Commands() Commands { return commandsOf(k.scripts()...) }

// scripts returns all scripts of a kind; nil stands for one that it does not have.
func (k *Kind) scripts() []*driver.Script {
	s := k.Scripts
	return append([]*driver.Script{s.Acquire, s.Release, s.Renew, s.Adopt, s.Force, s.Inspect, s.Retain, s.Leave}, k.Others...)
}

// ClientCommands returns the commands for the records of clients, and ObjectCommands those that set the expiry of a semaphore or a
// latch, or delete it.
func ClientCommands() []string { return commandsOf(clientScripts.write, clientScripts.read).Own }

// ObjectCommands is described at [ClientCommands].
func ObjectCommands() []string { return commandsOf(deleteKey, expire).Own }

var (
	// called is a command that a script calls, and its first key, if that has a name.
	called = regexp.MustCompile(`(?:redis\.p?call|even_if_full)\('([A-Z]+)'(?:, ([A-Z]+)\b)?`)
	// ofWaitlist are the names of the keys of the waitlist, where they are defined.
	ofWaitlist = regexp.MustCompile(`^(?:local )?(\w+(?:, \w+)*) = 'holdfast_(?:waitlist|requests|yield)'`)
)

// commandsOf returns the commands that these scripts call.
//
// The keys decide: what is called for a key of the waitlist is for the waitlist, wherever it is written, and so is PUBSUB, which counts
// subscribers. It does not matter whether a refusal would stop the script.
func commandsOf(scripts ...*driver.Script) (all Commands) {
	for name, s := range loaded {
		if !slices.Contains(scripts, s) {
			continue
		}
		kind, operation, _ := strings.Cut(name, " ")
		keys := map[string]bool{}
		lua.text(kind, operation, func(piece, line string) {
			if !strings.Contains(line, "'") { // most lines, and a regular expression costs more
				return
			}
			if found := ofWaitlist.FindStringSubmatch(line); found != nil {
				for key := range strings.SplitSeq(found[1], ", ") {
					keys[key] = true
				}
			}
			for _, call := range called.FindAllStringSubmatch(line, -1) {
				switch command, key := call[1], call[2]; {
				case command == "PUBSUB":
					all.Waitlist = append(all.Waitlist, "PUBSUB|NUMSUB")
				case keys[key]:
					all.Waitlist = append(all.Waitlist, command)
				case piece == "take_token", strings.HasPrefix(line, "local token"):
					all.Token = append(all.Token, command)
				default:
					all.Own = append(all.Own, command)
				}
			}
		})
	}
	for _, list := range []*[]string{&all.Own, &all.Token, &all.Waitlist} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return all
}
