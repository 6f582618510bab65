package graph

import (
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/ui/board/canvas"
)

// Writing is how the objects on one card are named, all of them in the same way: kinds
// in full or as kubectl shortens them, and names whole or without what they all begin
// with.
type Writing struct {
	Short bool
	Cut   string
	Width int // of the widest
}

// mostWritten bounds how many names are looked at: a card does not show more.
const mostWritten = 64

// writingsOf are those that a group may have, the best first.
func writingsOf(objects []*event.ObjectState, release string) []Writing {
	objects = objects[:min(len(objects), mostWritten)]
	all := []Writing{{}, {Short: true}, {Short: true, Cut: canvas.Clean(release) + "-"}}
	names := make([]string, len(objects))
	for i, o := range objects {
		names[i] = canvas.Clean(o.Object.Name)
	}
	common := CommonPrefix(names, "-.")
	for i, c := range common { // as little of it as is needed
		if (c == '-' || c == '.') && i >= len(all[2].Cut) {
			all = append(all, Writing{Short: true, Cut: common[:i+1]})
		}
	}
	for i := range all {
		for _, o := range objects {
			all[i].Width = max(all[i].Width, canvas.Width(all[i].object(o.Object, "~")))
		}
	}
	return all
}

// Writing is how the objects of a node are named in a width.
func (n *Node) Writing(w int) Writing {
	if n.writings == nil { // of most nodes of a large plan nobody asks
		n.writings = writingsOf(n.Objects, n.release)
	}
	for _, wr := range n.writings {
		if wr.Width <= w {
			return wr
		}
	}
	return n.writings[len(n.writings)-1]
}

// Object names an object in a width; where it still does not fit, without the middle.
func (wr Writing) Object(o plan.Object, w int, ellipsis string) string {
	name := wr.object(o, ellipsis)
	if canvas.Width(name) <= w {
		return name
	}
	kind, rest, _ := strings.Cut(name, "/")
	kind += "/"
	if room := w - canvas.Width(kind); room >= min(canvas.Width(rest), 5) {
		return kind + canvas.FitMiddle(rest, room, ellipsis)
	}
	return canvas.FitMiddle(name, w, ellipsis)
}

func (wr Writing) object(o plan.Object, ellipsis string) string {
	if !wr.Short {
		return canvas.Clean(ShortObject(o))
	}
	kind := o.Kind
	if k, ok := shortestKinds[kind]; ok {
		kind = k
	}
	name := canvas.Clean(o.Name)
	if rest, cut := strings.CutPrefix(name, wr.Cut); cut && wr.Cut != "" && rest != "" {
		name = ellipsis + rest
	}
	return canvas.Clean(kind) + "/" + name
}

// Shared is what the names of a node's objects begin with, other than the release,
// where its card leaves that out: it has to say so once.
func (p *Graph) Shared(wr Writing) string {
	if wr.Cut == canvas.Clean(p.release)+"-" {
		return ""
	}
	return wr.Cut
}

// CommonPrefix is what several names begin with, up to one of some separators; empty
// where nothing would be left of one of them.
func CommonPrefix(names []string, separators string) string {
	if len(names) < 2 {
		return ""
	}
	prefix := names[0]
	for _, n := range names[1:] {
		for !strings.HasPrefix(n, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	for _, n := range names {
		if len(n) == len(prefix) && prefix != "" {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return prefix[:strings.LastIndexAny(prefix, separators)+1]
}
