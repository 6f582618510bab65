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
type Reader struct{ json sync.Map }

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
	if r == nil {
		r = &Reader{}
	}
	data, cached := r.json.Load(doc)
	if !cached {
		if data, err = yaml.YAMLToJSON([]byte(doc)); err != nil {
			return nil, fmt.Errorf("invalid YAML: %w", err)
		}
		r.json.Store(doc, data)
	}
	err = json.Unmarshal(data.([]byte), &value)
	return value, err
}
