package documents

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"lockstep/engine/parallel"
)

// Reader parses documents and caches them as JSON: an operation reads the same text up to
// eight times, and parsing YAML dominates the cost. It caches JSON instead of objects
// because callers may modify what they get.
//
// It may be used by several goroutines. A nil Reader has no cache.
type Reader struct {
	mu   sync.Mutex
	json map[string][]byte
}

// Value is the content of a document, nil if it has only comments.
type Value struct {
	Value any
	Err   error
}

// Read parses documents, in order. Errors are those of Object.
func (r *Reader) Read(docs []string) []Value {
	values := make([]Value, len(docs))
	parallel.Each(len(docs), func(i int) { values[i].Value, values[i].Err = r.Object(docs[i]) })
	return values
}

// Object parses one document.
func (r *Reader) Object(doc string) (value any, err error) {
	data := r.cached(doc)
	if data == nil {
		if data, err = yaml.YAMLToJSON([]byte(doc)); err != nil {
			return nil, fmt.Errorf("invalid YAML: %w", err)
		}
		r.cache(doc, data)
	}
	err = json.Unmarshal(data, &value)
	return value, err
}

func (r *Reader) cached(doc string) []byte {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.json[doc]
}

func (r *Reader) cache(doc string, data []byte) {
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
