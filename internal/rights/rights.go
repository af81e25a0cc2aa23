package rights

import (
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/protocol"
)

// Rights are commands that a user may call, and the keys and channels that it may call them with.
type Rights struct {
	Commands []string // as on the page: GET, PUBSUB|NUMSUB
	Keys     []string // templates, to read and write
	Channels []string // templates
}

// of returns the rights of these lists, whose items are separated by spaces.
func of(commands, keys, channels string) Rights {
	return Rights{Commands: strings.Fields(commands), Keys: strings.Fields(keys), Channels: strings.Fields(channels)}
}

// And returns both, each right once.
func (r Rights) And(more Rights) Rights {
	return Rights{
		Commands: union(r.Commands, more.Commands),
		Keys:     union(r.Keys, more.Keys),
		Channels: union(r.Channels, more.Channels),
	}
}

func union(a, b []string) (all []string) {
	for _, item := range slices.Concat(a, b) {
		if !slices.Contains(all, item) {
			all = append(all, item)
		}
	}
	return all
}

// For returns the rights to the locks of a name or of a pattern, in the syntax of [Exactly] and [Matching], for a client of
// that tenant; empty: for a client without one.
func (r Rights) For(name, tenant string) Rights {
	return Rights{Commands: r.Commands, Keys: fillAll(r.Keys, name, tenant), Channels: fillAll(r.Channels, name, tenant)}
}

func fillAll(templates []string, name, tenant string) (all []string) {
	for _, template := range templates {
		all = append(all, Fill(template, name, tenant))
	}
	return all
}

// Fill puts a name, and the beginning of a tenant's client ids, into a template.
func Fill(template, name, tenant string) string {
	tagged := name
	if !strings.Contains(name, "{") {
		tagged = "{" + name + "}"
	}
	return strings.NewReplacer(
		"channel__{NAME}", "channel__{"+name+"}", // Redisson puts braces around every name there
		"{NAME}", tagged, "NAME", name, "TENANT", protocol.TenantPrefix(tenant),
	).Replace(template)
}

// Rules returns the rights to the locks of a name or of a pattern, without a tenant, as ACL SETUSER takes them.
func (r Rights) Rules(name string) []string { return r.For(name, "").rules() }

func (r Rights) rules() (rules []string) {
	for _, command := range r.Commands {
		rules = append(rules, "+"+strings.ToLower(command))
	}
	return append(rules, r.Patterns()...)
}

// Patterns returns the keys and channels as ACL SETUSER takes them.
func (r Rights) Patterns() (rules []string) {
	for _, key := range r.Keys {
		rules = append(rules, "~"+key)
	}
	for _, channel := range r.Channels {
		rules = append(rules, "&"+channel)
	}
	return rules
}

// space is the pattern of a byte that ACL SETUSER refuses in a pattern: white space or NUL. It consists of the other bytes. Some
// servers compare bytes with a sign, so no range goes across 0x80.
const space = "[^\x01-\x08\x0e-\x1f!-\x7f\x80-\xff]"

// special are the bytes that do not stand for themselves in a pattern, and what does.
var special = strings.NewReplacer(
	`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`,
	" ", space, "\t", space, "\n", space, "\v", space, "\f", space, "\r", space, "\x00", space,
)

// Exactly returns the pattern of one name. White space and NUL match each other, since Redis allows neither in a pattern.
func Exactly(name string) string { return special.Replace(name) }

// Matching returns the pattern of names in which * stands for any text, and everything else for itself.
func Matching(names string) string {
	parts := strings.Split(names, "*")
	for i, part := range parts {
		parts[i] = Exactly(part)
	}
	return strings.Join(parts, "*")
}
