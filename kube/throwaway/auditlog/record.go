package auditlog

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

// Record is a release record of Helm's storage, as a request writes it.
type Record struct {
	Status string // of the revision
	// objects returns the objects of the manifest. Most records are never asked.
	objects func() []manifestObject
}

// manifestObject is a document of a manifest.
type manifestObject struct {
	Kind     string
	Metadata struct{ Name string }
	Items    []manifestObject // of a List
}

// readRecord returns the record in a Secret's JSON, nil if it is no record.
func readRecord(secret []byte) *Record {
	var s struct {
		Type     string
		Metadata struct{ Labels map[string]string }
		Data     struct{ Release []byte }
	}
	if json.Unmarshal(secret, &s) != nil || s.Type != "helm.sh/release.v1" {
		return nil
	}
	return &Record{s.Metadata.Labels["status"], sync.OnceValue(func() []manifestObject { return manifestOf(s.Data.Release) })}
}

// manifestOf returns the objects of an encoded release, nil if it is unreadable.
func manifestOf(encoded []byte) (objects []manifestObject) {
	var release struct{ Manifest string }
	packed, err := base64.StdEncoding.AppendDecode(nil, encoded)
	if err != nil {
		return nil
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil || json.NewDecoder(z).Decode(&release) != nil {
		return nil
	}
	for doc := range strings.SplitSeq("\n"+release.Manifest, "\n---") {
		var o manifestObject
		if yaml.Unmarshal([]byte(doc), &o) == nil {
			objects = append(append(objects, o), o.Items...)
		}
	}
	return objects
}

// has reports whether the manifest has an object.
func (r *Record) has(kind, name string) bool {
	return r != nil && slices.ContainsFunc(r.objects(), func(o manifestObject) bool { return o.Kind == kind && o.Metadata.Name == name })
}
