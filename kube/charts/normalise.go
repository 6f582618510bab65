package charts

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"lockstep/engine/plan"
	"lockstep/kube/documents"
)

// separator matches the separators of documents like Helm, which also accepts a document that
// starts on the line of its separator.
var separator = regexp.MustCompile(`(?m)^---[ \t]*`)

// documentEnd matches other lines at which a YAML parser ends a document.
var documentEnd = regexp.MustCompile(`(?m)^(\.\.\.|%)`)

// normalise converts the ordering annotations of all objects in s to strings, in every document
// and in the items of lists. If possible, it edits the text in place and changes no other byte.
// Otherwise, for example if an annotation is in an anchored node, it encodes the document again. It
// leaves invalid YAML unchanged, because Helm reports the error.
//
// Rule R1: a YAML list in an annotation becomes a JSON string, which Helm accepts.
func normalise(s string) string {
	return editAnnotations(s, orderingHints, func(key, value *kyaml.Node) (edit, bool) {
		if !slices.Contains(convertedKeys, key.Value) {
			return edit{}, false
		}
		text, ok := toStringValue(value)
		return edit{name: key.Value, text: text, quote: true}, ok
	})
}

// RewriteKeys replaces annotation keys with two slashes with their stored spelling, which has one
// slash and which API servers accept (R3). It edits the text like normalise.
func RewriteKeys(manifest string) string {
	return editAnnotations(manifest, twoSlashHints, func(key, value *kyaml.Node) (edit, bool) {
		stored := plan.StoredKey(key.Value)
		return edit{name: stored}, stored != key.Value
	})
}

// edit is the change of one annotation.
type edit struct {
	key, value *kyaml.Node
	name       string // the new key
	text       string // the new value, if quote is set
	quote      bool
}

func (e edit) apply() {
	e.key.Value = e.name
	if e.quote {
		setString(e.value, e.text)
	}
}

// editChooser returns the edit of an annotation, or false to leave it unchanged.
type editChooser func(key, value *kyaml.Node) (edit, bool)

// editAnnotations edits the entries of metadata.annotations of the objects in s. Similar text in
// strings, block scalars or pod templates does not change.
//
// It only parses documents that contain a hint. Most do not, and parsing them would take longer
// than the rest of the rendering.
func editAnnotations(s string, hints []string, choose editChooser) string {
	if !hinted(s, hints) {
		return s
	}
	var b strings.Builder
	at := 0
	for _, sep := range append(separator.FindAllStringIndex(s, -1), []int{len(s), len(s)}) {
		b.WriteString(editDocument(s[at:sep[0]], hints, choose))
		b.WriteString(s[sep[0]:sep[1]])
		at = sep[1]
	}
	return b.String()
}

func editDocument(doc string, hints []string, choose editChooser) string {
	if !hinted(doc, hints) {
		return doc
	}
	if at := documentEnd.FindStringIndex(doc); at != nil {
		return editDocument(doc[:at[0]], hints, choose) + doc[at[0]:]
	}
	root := parseYAML(doc)
	if root == nil {
		return doc
	}
	f := finder{choose: choose}
	f.object(root.Content[0])
	if hasMerge(root) {
		if expanded := expand(doc); expanded != nil {
			all := finder{choose: choose}
			all.object(expanded.Content[0])
			f.shared = f.shared || len(all.edits) != len(f.edits) // others are in merged mappings
		}
	}
	if len(f.edits) == 0 && !f.shared {
		return doc
	}
	if !f.shared {
		if out, ok := editText(doc, root, f.edits); ok {
			for _, e := range f.edits {
				e.apply()
			}
			if equal(root, parseYAML(out)) {
				return out
			}
		}
	}
	out, ok := reencode(doc, choose)
	if !ok {
		return doc
	}
	return doc[:len(doc)-len(strings.TrimLeft(doc, "\r\n"))] + out // kyaml drops leading empty lines
}

// hinted reports whether one of the hints occurs in a document.
func hinted(doc string, hints []string) bool {
	return slices.ContainsFunc(hints, func(h string) bool { return strings.Contains(doc, h) })
}

// parseYAML returns the document node of the first document in doc, nil if it is invalid or not
// finite; Helm's parser refuses it.
func parseYAML(doc string) *kyaml.Node {
	var root kyaml.Node
	if err := kyaml.Unmarshal([]byte(doc), &root); err != nil || len(root.Content) == 0 || !finite(&root) {
		return nil
	}
	return &root
}

// finder finds the annotations to change in an object.
type finder struct {
	choose editChooser
	edits  []edit
	// shared is set if an edit is in an anchored node or a merged mapping: changing its text would
	// also change it elsewhere.
	shared bool
}

func (f *finder) object(object *kyaml.Node) {
	metadata := child(object, "metadata")
	annotations := child(metadata, "annotations")
	f.annotations(annotations, anchored(object) || anchored(metadata) || anchored(annotations))
	if items := child(object, "items"); items != nil && items.Kind == kyaml.SequenceNode {
		for _, item := range items.Content {
			if item = documents.Resolve(item); item.Kind == kyaml.MappingNode {
				f.object(item)
			}
		}
	}
}

func (f *finder) annotations(m *kyaml.Node, shared bool) {
	for key, value := range documents.Entries(m) {
		e, ok := f.choose(documents.Resolve(key), value)
		if !ok {
			continue
		}
		e.key, e.value = key, value
		f.edits = append(f.edits, e)
		f.shared = f.shared || shared || anchored(key) || anchored(value)
	}
}

// anchored reports whether a node has an anchor or is an alias.
func anchored(n *kyaml.Node) bool { return n != nil && (n.Anchor != "" || n.Kind == kyaml.AliasNode) }

// reencode makes the edits in the parsed document and encodes it again, with aliases and merge keys
// expanded. It returns false if it cannot.
func reencode(doc string, choose editChooser) (string, bool) {
	root := expand(doc)
	if root == nil {
		return "", false
	}
	f := finder{choose: choose}
	f.object(root.Content[0])
	for _, e := range f.edits {
		e.apply()
	}
	out, err := kyaml.String(root)
	return out, err == nil
}

// editText makes the edits in the text of a document, or returns false if it cannot. It works on
// lines and knows little of YAML, so the caller must compare the parsed result.
func editText(doc string, root *kyaml.Node, edits []edit) (string, bool) {
	lines := lineStarts(doc)
	next := nextNodes(root)
	var b strings.Builder
	at := 0
	for _, e := range edits {
		name, start, ok := locateKey(doc, lines, e.key)
		if !ok || name < at {
			return "", false
		}
		b.WriteString(doc[at:name])
		b.WriteString(e.name)
		at = name + len(e.key.Value)
		if !e.quote {
			continue
		}
		if from, to, ok := locateInline(doc, lines, e.value); ok && from >= start {
			b.WriteString(doc[at:from])
			b.WriteString(documents.Quote(e.text))
			at = to
			continue
		}
		end := len(doc)
		if n := next[e.value]; n != nil && n.Line > len(lines) { // YAML has more kinds of line ends
			return "", false
		} else if n != nil {
			end = lines[n.Line-1]
		}
		if end < start {
			return "", false
		}
		old := trimTail(doc[start:end])
		b.WriteString(doc[at:start])
		b.WriteString(" " + documents.Quote(e.text))
		if c := e.value.LineComment; c != "" && !strings.Contains(old, "\n") && strings.HasSuffix(old, c) {
			b.WriteString(" " + c)
		}
		at = start + len(old)
	}
	b.WriteString(doc[at:])
	return b.String(), true
}

// lineStarts returns the offset of each line.
func lineStarts(doc string) []int {
	starts := []int{0}
	for i := range len(doc) {
		if doc[i] == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// nextNodes maps each node to the node that follows it and its descendants.
func nextNodes(root *kyaml.Node) map[*kyaml.Node]*kyaml.Node {
	next := map[*kyaml.Node]*kyaml.Node{}
	var walk func(n, after *kyaml.Node)
	walk = func(n, after *kyaml.Node) {
		next[n] = after
		for _, c := range slices.Backward(n.Content) {
			walk(c, after)
			after = c
		}
	}
	walk(root, nil)
	return next
}

// locateKey returns the offset of a key's name and the offset after its colon.
func locateKey(doc string, lines []int, key *kyaml.Node) (name, value int, ok bool) {
	if key.Line < 1 || key.Line > len(lines) {
		return 0, 0, false
	}
	at := offset(doc, lines, key)
	for _, quote := range []string{"", `"`, `'`} {
		after, found := strings.CutPrefix(doc[at:], quote+key.Value+quote)
		after, colon := strings.CutPrefix(strings.TrimLeft(after, " "), ":")
		if found && colon {
			return at + len(quote), len(doc) - len(after), true
		}
	}
	return 0, 0, false
}

// offset returns the offset of a node in doc.
func offset(doc string, lines []int, n *kyaml.Node) int {
	at := lines[n.Line-1]
	for i := 1; i < n.Column; i++ {
		_, size := utf8.DecodeRuneInString(doc[at:])
		at += size
	}
	return at
}

// locateInline returns the offsets of the start and the end of a plain scalar or of a list in
// brackets.
func locateInline(doc string, lines []int, n *kyaml.Node) (from, to int, ok bool) {
	if n.Line < 1 || n.Line > len(lines) || n.Tag != "" && strings.HasPrefix(doc[offset(doc, lines, n):], "!") {
		return 0, 0, false
	}
	from = offset(doc, lines, n)
	switch {
	case n.Kind == kyaml.ScalarNode:
		return from, from + len(n.Value), n.Value != "" && strings.HasPrefix(doc[from:], n.Value)
	case n.Kind == kyaml.SequenceNode && strings.HasPrefix(doc[from:], "["):
		to = closingBracket(doc, from)
		return from, to, to > 0
	}
	return 0, 0, false
}

// closingBracket returns the offset after the bracket that closes the one at from; 0 if there is
// none, or a comment comes first.
func closingBracket(doc string, from int) int {
	depth := 0
	quote := byte(0)
	for i := from; i < len(doc); i++ {
		switch c := doc[i]; {
		case quote != 0:
			if c == '\\' && quote == '"' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '#' && strings.IndexByte(" \t\n", doc[i-1]) >= 0:
			return 0
		case (c == '"' || c == '\'') && strings.IndexByte(" \t\n[{,:", doc[i-1]) >= 0:
			quote = c
		case c == '[':
			depth++
		case c == ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// trimTail removes blank lines, comment lines and white space at the end of a value.
func trimTail(s string) string {
	for {
		s = strings.TrimRight(s, " \t\r\n")
		i := strings.LastIndexByte(s, '\n')
		if i < 0 || !strings.HasPrefix(strings.TrimLeft(s[i+1:], " \t"), "#") {
			return s
		}
		s = s[:i]
	}
}
