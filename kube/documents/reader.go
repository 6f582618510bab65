package documents

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"lockstep/engine/parallel"
)

// Reader reads documents, and remembers what their YAML is in JSON: an operation
// comes across the same texts up to eight times, in Helm's dry run and in its
// action, as what is there and as what is to be, and to read the YAML of a small
// object takes longer than all else that is done with it besides sending it. JSON
// is kept, and no objects, since it takes little memory and every reader gets
// objects of its own, which it may change.
//
// It may be used by several goroutines. A nil Reader remembers nothing.
type Reader struct {
	mu   sync.Mutex
	json map[string][]byte
}

// Value is what a document holds, nil where it holds nothing but comment.
type Value struct {
	Value any
	Err   error
}

// Read returns what documents hold, in their order. Errors are those of Object.
func (r *Reader) Read(docs []string) []Value {
	values := make([]Value, len(docs))
	parallel.Each(len(docs), func(i int) { values[i].Value, values[i].Err = r.Object(docs[i]) })
	return values
}

// Object returns what one document holds.
func (r *Reader) Object(doc string) (value any, err error) {
	data := r.known(doc)
	if data == nil {
		if data, err = yaml.YAMLToJSON([]byte(doc)); err != nil {
			return nil, fmt.Errorf("no YAML: %w", err)
		}
		r.remember(doc, data)
	}
	err = json.Unmarshal(data, &value)
	return value, err
}

func (r *Reader) known(doc string) []byte {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.json[doc]
}

func (r *Reader) remember(doc string, data []byte) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.json == nil {
		r.json = map[string][]byte{}
	}
	r.json[doc] = data
}
