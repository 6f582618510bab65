package charts

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	"lockstep/engine/plan"
)

// separator parts the documents of a template's output as Helm does, which
// also takes a separator that a document is glued to.
var separator = regexp.MustCompile(`(?m)^---[ \t]*`)

// documentEnd matches the end of a document where no separator follows.
var documentEnd = regexp.MustCompile(`(?m)^(\.\.\.|%)`)

// normalise makes the sequencing annotations of the objects in s strings, in every
// document and in the items of lists (R19). All else stays as it is, to the byte.
// What is no YAML stays as it is too: Helm tells what is wrong with it.
//
// Rule R1: a YAML list in an annotation becomes the JSON in a string that Helm takes.
func normalise(s string) string {
	return editAnnotations(s, orderingHints, func(key, value *kyaml.Node) (edit, bool) {
		if !sequencing[key.Value] {
			return edit{}, false
		}
		text, ok := asString(value)
		return edit{name: key.Value, text: text, quote: true}, ok
	})
}

// Respell writes the annotation keys with two slashes under their stored spelling
// with one, which an API server takes (R3). All else stays as it is, to the byte.
func Respell(manifest string) string {
	return editAnnotations(manifest, twoSlashHints, func(key, value *kyaml.Node) (edit, bool) {
		stored := plan.StoredKey(key.Value)
		return edit{name: stored}, stored != key.Value
	})
}

// edit is a change of one annotation, as wanted by a chooser.
type edit struct {
	key, value *kyaml.Node
	// name is the key that the annotation is to have.
	name string
	// text is the string that its value is to become, where quote is set.
	text  string
	quote bool
}

// chooser says whether and how an annotation is to be changed.
type chooser func(key, value *kyaml.Node) (edit, bool)

// editAnnotations changes annotations of the objects in s: keys of their own
// metadata.annotations, found by structure. What merely looks like one, in a
// string, a block scalar or a pod template, is not touched.
//
// Documents in which no hint occurs are not looked into: most have none, and to
// parse each would take longer than all else of a rendering.
func editAnnotations(s string, hints []string, choose chooser) string {
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

func editDocument(doc string, hints []string, choose chooser) string {
	if !hinted(doc, hints) {
		return doc
	}
	if at := documentEnd.FindStringIndex(doc); at != nil {
		return editDocument(doc[:at[0]], hints, choose) + doc[at[0]:]
	}
	root := parse(doc)
	if root == nil || len(root.Content) == 0 {
		return doc
	}
	f := finder{choose: choose}
	f.object(root.Content[0])
	edits := slices.Concat(f.edits...)
	if len(edits) == 0 {
		return doc
	}
	if !f.shared {
		if out, ok := exchange(doc, root, edits); ok {
			for _, e := range edits {
				e.key.Value = e.name
				if e.quote {
					setString(e.value, e.text)
				}
			}
			if equal(root, parse(out)) {
				return out
			}
		}
	}
	out, err := rewrite(doc, f.edits)
	if err != nil {
		return doc
	}
	return leadingLines(doc) + out
}

// hinted reports whether one of the hints occurs in a document.
func hinted(doc string, hints []string) bool {
	return slices.ContainsFunc(hints, func(h string) bool { return strings.Contains(doc, h) })
}

// parse returns the document node of the first document in doc, or nil, also where
// it cannot be followed to an end: Helm's parser refuses that.
func parse(doc string) *kyaml.Node {
	var root kyaml.Node
	if err := kyaml.Unmarshal([]byte(doc), &root); err != nil || root.Kind != kyaml.DocumentNode || !finite(&root) {
		return nil
	}
	return &root
}

// finder finds the annotations to change in an object.
type finder struct {
	choose chooser
	edits  [][]edit // of each object, those in lists after the list
	// shared is set where an edit is in what the document uses elsewhere as
	// well, by anchor and alias: to change its text would change both.
	shared bool
}

func (f *finder) object(object *kyaml.Node) {
	f.edits = append(f.edits, nil)
	metadata := child(object, "metadata")
	annotations := child(metadata, "annotations")
	if annotations != nil && annotations.Kind == kyaml.MappingNode {
		f.annotations(annotations, anchored(object) || anchored(metadata) || anchored(annotations))
	}
	if items := child(object, "items"); items != nil && items.Kind == kyaml.SequenceNode {
		for _, item := range items.Content {
			if item = resolve(item); item.Kind == kyaml.MappingNode {
				f.object(item)
			}
		}
	}
}

func (f *finder) annotations(m *kyaml.Node, shared bool) {
	for i := 0; i+1 < len(m.Content); i += 2 {
		key, value := m.Content[i], m.Content[i+1]
		if key.ShortTag() == kyaml.MergeTag {
			if merged := resolve(value); merged.Kind == kyaml.MappingNode {
				f.annotations(merged, true)
			}
			continue
		}
		e, ok := f.choose(resolve(key), value)
		if !ok {
			continue
		}
		e.key, e.value = key, value
		last := len(f.edits) - 1
		f.edits[last] = append(f.edits[last], e)
		f.shared = f.shared || shared || anchored(key) || anchored(value)
	}
}

// anchored reports whether a node can be used, or is used, in two places.
func anchored(n *kyaml.Node) bool { return n.Anchor != "" || n.Kind == kyaml.AliasNode }

// rewrite makes the edits in the values of a document, whose text is made again:
// aliases are gone from it, and so are comments.
func rewrite(doc string, edits [][]edit) (string, error) {
	data, err := yaml.YAMLToJSON([]byte(doc))
	if err != nil {
		return "", err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // big integers stay what they are
	var object map[string]any
	if err := d.Decode(&object); err != nil {
		return "", err
	}
	rewriteObject(object, &edits)
	if data, err = json.Marshal(object); err != nil {
		return "", err
	}
	out, err := yaml.JSONToYAML(data)
	return string(out), err
}

func rewriteObject(object map[string]any, edits *[][]edit) {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	own := (*edits)[0]
	*edits = (*edits)[1:]
	for _, e := range own {
		old := resolve(e.key).Value
		value, ok := annotations[old]
		if !ok {
			continue
		}
		if e.quote {
			value = e.text
		}
		delete(annotations, old)
		annotations[e.name] = value
	}
	items, _ := object["items"].([]any)
	for _, item := range items {
		if item, ok := item.(map[string]any); ok {
			rewriteObject(item, edits)
		}
	}
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
		name, start, ok := keyPlace(doc, lines, e.key)
		if !ok || name < at {
			return "", false
		}
		b.WriteString(doc[at:name])
		b.WriteString(e.name)
		at = name + len(e.key.Value)
		if !e.quote {
			continue
		}
		if from, to, ok := inlinePlace(doc, lines, e.value); ok && from >= start {
			b.WriteString(doc[at:from])
			b.WriteString("'" + strings.ReplaceAll(e.text, "'", "''") + "'")
			at = to
			continue
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

// keyPlace returns the offsets of a key's name and of what follows its colon.
func keyPlace(doc string, lines []int, key *kyaml.Node) (name, value int, ok bool) {
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

// offset returns where in doc a node begins.
func offset(doc string, lines []int, n *kyaml.Node) int {
	at := lines[n.Line-1]
	for i := 1; i < n.Column; i++ {
		_, size := utf8.DecodeRuneInString(doc[at:])
		at += size
	}
	return at
}

// inlinePlace returns the offsets of a plain scalar and of a list in brackets,
// whose ends the text itself tells.
func inlinePlace(doc string, lines []int, n *kyaml.Node) (from, to int, ok bool) {
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

// closingBracket returns the offset after the bracket that closes the one at
// from, or 0 where quotes or comments make that hard to tell.
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
