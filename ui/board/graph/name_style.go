package graph

import (
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/ui/board/canvas"
)

// NameStyle is how one card shortens the names of all its objects.
type NameStyle struct {
	Short bool   // kubectl's short kinds
	Cut   string // a prefix to omit
	Width int    // of the widest name
}

// maxMeasured limits how many names are measured: a card does not show more.
const maxMeasured = 64

// nameStyles lists the possible ways for a group, the longest names first.
func nameStyles(objects []*event.ObjectState, release string) []NameStyle {
	objects = objects[:min(len(objects), maxMeasured)]
	all := []NameStyle{{}, {Short: true}, {Short: true, Cut: canvas.Clean(release) + "-"}}
	names := make([]string, len(objects))
	for i, o := range objects {
		names[i] = canvas.Clean(o.Object.Name)
	}
	common := CommonPrefix(names, "-.")
	for i, c := range common { // the shortest cut first
		if (c == '-' || c == '.') && i >= len(all[2].Cut) {
			all = append(all, NameStyle{Short: true, Cut: common[:i+1]})
		}
	}
	for i := range all {
		for _, o := range objects {
			all[i].Width = max(all[i].Width, canvas.Width(all[i].object(o.Object, "~")))
		}
	}
	return all
}

// NameStyle returns the way to name the objects of a node in a width.
func (n *Node) NameStyle(w int) NameStyle {
	if n.styles == nil { // lazily: most nodes of a large plan are not visible
		n.styles = nameStyles(n.Objects, n.release)
	}
	for _, wr := range n.styles {
		if wr.Width <= w {
			return wr
		}
	}
	return n.styles[len(n.styles)-1]
}

// Object fits an object's name into a width; it cuts the middle if needed.
func (wr NameStyle) Object(o plan.Object, w int, ellipsis string) string {
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

func (wr NameStyle) object(o plan.Object, ellipsis string) string {
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

// Shared returns the prefix that the card must show once because its objects omit it; "" for
// the release's name.
func (p *Graph) Shared(wr NameStyle) string {
	if wr.Cut == canvas.Clean(p.release)+"-" {
		return ""
	}
	return wr.Cut
}

// CommonPrefix returns the common prefix of several names, up to a separator; shorter than
// each of them.
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
