package charts

import (
	"regexp"
	"strings"
	"unicode/utf8"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
)

// separator parts the documents of a template's output as Helm does, which
// also takes a separator that a document is glued to.
var separator = regexp.MustCompile(`(?m)^---[ \t]*`)

// documentEnd matches the end of a document where no separator follows.
var documentEnd = regexp.MustCompile(`(?m)^(\.\.\.|%)`)

// normalise makes the sequencing annotations of the objects in s strings (R1,
// R19), in every document and in the items of lists. Everything else stays as
// it is, to the byte wherever an annotation can be exchanged in the text. What
// is no YAML stays as it is too: Helm tells what is wrong with it.
//
// Rule R1: a YAML list in an annotation becomes the JSON in a string that Helm takes.
func normalise(s string) string {
	if !strings.Contains(s, annotationHost) {
		return s
	}
	var b strings.Builder
	at := 0
	for _, sep := range append(separator.FindAllStringIndex(s, -1), []int{len(s), len(s)}) {
		b.WriteString(normaliseDocument(s[at:sep[0]]))
		b.WriteString(s[sep[0]:sep[1]])
		at = sep[1]
	}
	return b.String()
}

func normaliseDocument(doc string) string {
	if !strings.Contains(doc, annotationHost) {
		return doc
	}
	if at := documentEnd.FindStringIndex(doc); at != nil {
		return normaliseDocument(doc[:at[0]]) + doc[at[0]:]
	}
	root := parse(doc)
	edits := annotationEdits(root)
	if len(edits) == 0 {
		return doc
	}
	out, ok := exchange(doc, root, edits)
	for _, e := range edits {
		setString(e.value, e.text)
	}
	if ok && equal(root, parse(out)) {
		return out
	}
	out, err := kyaml.String(root)
	if err != nil || !equal(root, parse(out)) {
		return doc
	}
	return leadingLines(doc) + out
}

// parse returns the document node of the first document in doc, or nil.
func parse(doc string) *kyaml.Node {
	var root kyaml.Node
	if err := kyaml.Unmarshal([]byte(doc), &root); err != nil || root.Kind != kyaml.DocumentNode {
		return nil
	}
	return &root
}

// edit is an annotation whose value is to become the string text.
type edit struct {
	key, value *kyaml.Node
	text       string
}

// annotationEdits finds the annotations to change in the object of a document.
func annotationEdits(root *kyaml.Node) []edit {
	if root == nil || len(root.Content) == 0 {
		return nil
	}
	return objectEdits(root.Content[0])
}

func objectEdits(object *kyaml.Node) []edit {
	var edits []edit
	if m := child(child(object, "metadata"), "annotations"); m != nil && m.Kind == kyaml.MappingNode {
		for i := 0; i+1 < len(m.Content); i += 2 {
			key, value := m.Content[i], m.Content[i+1]
			if !sequencing[key.Value] {
				continue
			}
			if text, ok := asString(value); ok {
				edits = append(edits, edit{key, value, text})
			}
		}
	}
	if items := child(object, "items"); items != nil && items.Kind == kyaml.SequenceNode {
		for _, item := range items.Content {
			edits = append(edits, objectEdits(item)...)
		}
	}
	return edits
}

// exchange writes the edits into the text of a document. It reports whether it
// could; the result has still to be compared with what is wanted, since it
// goes by lines and knows little of YAML.
func exchange(doc string, root *kyaml.Node, edits []edit) (string, bool) {
	lines := lineStarts(doc)
	next := nextNodes(root)
	var b strings.Builder
	at := 0
	for _, e := range edits {
		start, ok := valueStart(doc, lines, e.key)
		if !ok || start < at {
			return "", false
		}
		end := len(doc)
		if n := next[e.value]; n != nil {
			end = lines[n.Line-1]
		}
		if end < start {
			return "", false
		}
		old := trimTail(doc[start:end])
		b.WriteString(doc[at:start])
		b.WriteString(" '" + strings.ReplaceAll(e.text, "'", "''") + "'")
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

// nextNodes maps each node to the one that follows it and all it contains.
func nextNodes(root *kyaml.Node) map[*kyaml.Node]*kyaml.Node {
	next := map[*kyaml.Node]*kyaml.Node{}
	var walk func(n, after *kyaml.Node)
	walk = func(n, after *kyaml.Node) {
		next[n] = after
		for i, c := range n.Content {
			if i+1 < len(n.Content) {
				walk(c, n.Content[i+1])
			} else {
				walk(c, after)
			}
		}
	}
	walk(root, nil)
	return next
}

// valueStart returns the offset just after the colon of a key.
func valueStart(doc string, lines []int, key *kyaml.Node) (int, bool) {
	if key.Line < 1 || key.Line > len(lines) {
		return 0, false
	}
	at := lines[key.Line-1]
	for i := 1; i < key.Column; i++ {
		_, size := utf8.DecodeRuneInString(doc[at:])
		at += size
	}
	rest := doc[at:]
	after, ok := strings.CutPrefix(rest, key.Value)
	for _, quote := range []string{`"`, `'`} {
		if !ok {
			after, ok = strings.CutPrefix(rest, quote+key.Value+quote)
		}
	}
	after, colon := strings.CutPrefix(strings.TrimLeft(after, " "), ":")
	return len(doc) - len(after), ok && colon
}

// trimTail takes blank lines and lines of comment from the end of a value, and
// its last line end.
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

// leadingLines returns the empty lines that doc starts with.
func leadingLines(doc string) string {
	return doc[:len(doc)-len(strings.TrimLeft(doc, "\r\n"))]
}
