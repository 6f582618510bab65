// Package refs reads what rendered objects name: the ConfigMap that a pod mounts,
// the class of an Ingress, the Service behind a webhook. It is pure, and knows
// Kubernetes' own kinds alone.
package refs

import (
	"strconv"
	"strings"

	"lockstep/engine/plan"
)

// Use is what an object needs another one for.
type Use string

// The uses.
const (
	Namespace   Use = "namespace"   // it lies in it
	Environment Use = "environment" // a ConfigMap or Secret that environment variables are read from
	Volume      Use = "volume"      // a ConfigMap or Secret that is mounted, or opens a volume
	Claim       Use = "claim"       // a PersistentVolumeClaim that is mounted
	Pull        Use = "pull"        // a Secret that images are pulled with
	Account     Use = "account"     // the ServiceAccount that pods run as
	Token       Use = "token"       // a Secret of a ServiceAccount
	Priority    Use = "priority"    // the PriorityClass of pods
	Runtime     Use = "runtime"     // the RuntimeClass of pods
	Storage     Use = "storage"     // the StorageClass of a claim
	Bound       Use = "bound"       // the PersistentVolume of a claim
	Governing   Use = "governing"   // the Service that gives the pods of a StatefulSet their names
	Class       Use = "class"       // the IngressClass of an Ingress
	Backend     Use = "backend"     // a Service that an Ingress leads to
	TLS         Use = "tls"         // the Secret with an Ingress' certificate
	Target      Use = "target"      // what an autoscaler scales
	Role        Use = "role"        // the Role or ClusterRole of a binding
	Subject     Use = "subject"     // a ServiceAccount of a binding
	Server      Use = "server"      // the Service behind a webhook or an API
)

// Ref says that an object names another one.
type Ref struct {
	Use Use
	To  plan.Object
	// Path is the field that names it: "spec.volumes[0].configMap.name".
	Path string
	// Optional refs are those that the object says it can do without.
	Optional bool
	// Keys are the entries of a ConfigMap or Secret that are needed.
	Keys []string
}

// Of returns what an object of the given name and fields refers to, in the order
// of its fields. What has another type than the kind has it is left out.
func Of(name plan.Object, object map[string]any) []Ref {
	f := &finder{in: name}
	root := Field{object, ""}
	if name.Namespace != "" {
		f.add(Namespace, plan.Object{Kind: "Namespace", Name: name.Namespace}, "metadata.namespace")
	}
	if pods, ok := PodsOf(name, object); ok {
		replaced := map[string]bool{}
		for _, c := range root.At("spec", "volumeClaimTemplates").Each() {
			replaced[c.At("metadata", "name").Text()] = true
		}
		f.pod(Field{pods.Spec, pods.Path}, replaced)
	}
	if read := byKind[plan.GroupKind{Group: name.Group, Kind: name.Kind}]; read != nil {
		read(f, root)
	}
	return f.found
}

// finder collects what one object refers to.
type finder struct {
	in    plan.Object
	found []Ref
}

func (f *finder) add(use Use, to plan.Object, path string) *Ref {
	if to.Name == "" {
		return &Ref{}
	}
	f.found = append(f.found, Ref{Use: use, To: to, Path: path})
	return &f.found[len(f.found)-1]
}

// name adds the object of a kind whose name is in a field. Kinds that lie in a
// namespace are looked for in that of the object.
func (f *finder) name(use Use, kind plan.GroupKind, at Field) *Ref {
	to := plan.Object{Group: kind.Group, Kind: kind.Kind, Name: at.Text()}
	if !ofCluster[kind] {
		to.Namespace = f.in.Namespace
	}
	return f.add(use, to, at.Path)
}

var (
	configMap      = plan.GroupKind{Kind: "ConfigMap"}
	secret         = plan.GroupKind{Kind: "Secret"}
	claim          = plan.GroupKind{Kind: "PersistentVolumeClaim"}
	volume         = plan.GroupKind{Kind: "PersistentVolume"}
	account        = plan.GroupKind{Kind: "ServiceAccount"}
	service        = plan.GroupKind{Kind: "Service"}
	priorityClass  = plan.GroupKind{Group: "scheduling.k8s.io", Kind: "PriorityClass"}
	runtimeClass   = plan.GroupKind{Group: "node.k8s.io", Kind: "RuntimeClass"}
	storageClass   = plan.GroupKind{Group: "storage.k8s.io", Kind: "StorageClass"}
	ingressClass   = plan.GroupKind{Group: "networking.k8s.io", Kind: "IngressClass"}
	ofCluster      = map[plan.GroupKind]bool{volume: true, priorityClass: true, runtimeClass: true, storageClass: true, ingressClass: true}
	claimClassBeta = "volume.beta.kubernetes.io/storage-class"
)

// Field is a value somewhere in an object, and the way there.
type Field struct {
	Value any
	Path  string
}

// At goes down along keys. Where there is nothing, neither is below.
func (v Field) At(keys ...string) Field {
	for _, k := range keys {
		m, _ := v.Value.(map[string]any)
		v.Value = m[k]
		if v.Path == "" {
			v.Path = k
		} else {
			v.Path = v.Path + "." + k
		}
	}
	return v
}

// Each are the entries of a list.
func (v Field) Each() []Field {
	list, _ := v.Value.([]any)
	out := make([]Field, len(list))
	for i, x := range list {
		out[i] = Field{x, v.Path + "[" + strconv.Itoa(i) + "]"}
	}
	return out
}

// Text is a string, empty for everything else.
func (v Field) Text() string {
	s, _ := v.Value.(string)
	return s
}

func (v Field) There() bool { return v.Value != nil }

func (v Field) Yes() bool {
	b, _ := v.Value.(bool)
	return b
}

// Mentions reports whether a name is, as a whole word, in a text
// anywhere in a value: "--secret=web-tls" mentions web-tls, and neither web nor
// tls.
func Mentions(value any, name string) bool {
	switch v := value.(type) {
	case string:
		return hasWord(v, name)
	case map[string]any:
		for _, x := range v {
			if Mentions(x, name) {
				return true
			}
		}
	case []any:
		for _, x := range v {
			if Mentions(x, name) {
				return true
			}
		}
	}
	return false
}

func hasWord(text, word string) bool {
	for from := 0; word != ""; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(word)
		if (start == 0 || !inWord(text[start-1])) && (end == len(text) || !inWord(text[end])) {
			return true
		}
		from = start + 1
	}
	return false
}

// inWord reports whether a byte may be a part of an object's name.
func inWord(b byte) bool {
	return b == '-' || b == '.' || b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}
