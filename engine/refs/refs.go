// Package refs reads the references in rendered objects: the ConfigMap that a pod mounts, the class of
// an Ingress, the Service of a webhook. It is pure and knows only Kubernetes' built-in kinds. Its
// central types are Ref, Pods and Field; engine/infer and kube import it.
package refs

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"lockstep/engine/plan"
)

// Use is the purpose of a reference.
type Use string

// The uses.
const (
	Namespace   Use = "namespace"   // the object's namespace
	Environment Use = "environment" // a ConfigMap or Secret for environment variables
	Volume      Use = "volume"      // a mounted ConfigMap or Secret, or the credentials of a volume
	Claim       Use = "claim"       // a mounted PersistentVolumeClaim
	Pull        Use = "pull"        // an image pull Secret
	Account     Use = "account"     // the ServiceAccount that pods run as
	Token       Use = "token"       // a Secret of a ServiceAccount
	Priority    Use = "priority"    // the PriorityClass of pods
	Runtime     Use = "runtime"     // the RuntimeClass of pods
	Storage     Use = "storage"     // the StorageClass of a claim
	Bound       Use = "bound"       // the PersistentVolume of a claim
	Governing   Use = "governing"   // the headless Service of a StatefulSet
	Class       Use = "class"       // the IngressClass of an Ingress
	Backend     Use = "backend"     // a Service of an Ingress
	TLS         Use = "tls"         // the Secret with an Ingress' certificate
	Target      Use = "target"      // the target of an autoscaler
	Role        Use = "role"        // the Role or ClusterRole of a binding
	Subject     Use = "subject"     // a ServiceAccount of a binding
	Server      Use = "server"      // the Service behind a webhook or an API
)

// Ref is a reference to another object.
type Ref struct {
	Use Use
	To  plan.Object
	// Path is the field that names it: "spec.volumes[0].configMap.name".
	Path string
	// Optional is set if the object declares the reference optional.
	Optional bool
	// Keys lists the keys that the reference names in a ConfigMap or Secret. It is empty if the reference names none.
	Keys []string
}

// Find returns the references in an object. It ignores fields that have the wrong type.
func Find(object plan.Object, fields map[string]any) []Ref {
	f := &finder{object: object}
	root := Field{fields, ""}
	if object.Namespace != "" {
		f.add(Namespace, plan.Object{Kind: "Namespace", Name: object.Namespace}, "metadata.namespace")
	}
	if pods, ok := FindPods(object, fields); ok {
		replaced := map[string]bool{}
		for _, c := range root.At("spec", "volumeClaimTemplates").Each() {
			replaced[c.At("metadata", "name").Text()] = true
		}
		f.pod(Field{pods.Spec, pods.Path}, replaced)
	}
	kind := object.GroupKind()
	if kind.Group == "extensions" && kind.Kind == "Ingress" {
		kind.Group = "networking.k8s.io"
	}
	f.read(root, fieldsByKind[kind])
	if read := readers[kind]; read != nil {
		read(f, root)
	}
	return f.found
}

// finder collects the references of an object.
type finder struct {
	object plan.Object
	found  []Ref
}

// refField is a field that names another object. "[]." in its path stands for each item of a list.
type refField struct {
	use  Use
	kind plan.GroupKind
	path string
}

// read adds the references in the given fields of parent.
func (f *finder) read(parent Field, fields []refField) {
	for _, field := range fields {
		for _, named := range parent.all(field.path) {
			f.addNamed(field.use, field.kind, named)
		}
	}
}

// add adds a reference, unless the name is empty. The result is never nil.
func (f *finder) add(use Use, to plan.Object, path string) *Ref {
	if to.Name == "" {
		return &Ref{}
	}
	f.found = append(f.found, Ref{Use: use, To: to, Path: path})
	return &f.found[len(f.found)-1]
}

// addNamed adds a reference to the object that a field names. Unless its kind is cluster-scoped, it is in
// the namespace of the referring object.
func (f *finder) addNamed(use Use, kind plan.GroupKind, at Field) *Ref {
	to := plan.Object{Group: kind.Group, Kind: kind.Kind, Name: at.Text()}
	if !clusterScoped[kind] {
		to.Namespace = f.object.Namespace
	}
	return f.add(use, to, at.Path)
}

var (
	configMap        = plan.GroupKind{Kind: "ConfigMap"}
	secret           = plan.GroupKind{Kind: "Secret"}
	claim            = plan.GroupKind{Kind: "PersistentVolumeClaim"}
	persistentVolume = plan.GroupKind{Kind: "PersistentVolume"}
	account          = plan.GroupKind{Kind: "ServiceAccount"}
	service          = plan.GroupKind{Kind: "Service"}
	priorityClass    = plan.GroupKind{Group: "scheduling.k8s.io", Kind: "PriorityClass"}
	runtimeClass     = plan.GroupKind{Group: "node.k8s.io", Kind: "RuntimeClass"}
	storageClass     = plan.GroupKind{Group: "storage.k8s.io", Kind: "StorageClass"}
	ingressClass     = plan.GroupKind{Group: "networking.k8s.io", Kind: "IngressClass"}
	clusterScoped    = map[plan.GroupKind]bool{persistentVolume: true, priorityClass: true, runtimeClass: true, storageClass: true, ingressClass: true}
	claimClassBeta   = "volume.beta.kubernetes.io/storage-class"
)

// Field is a value in an object, and its path.
type Field struct {
	Value any
	Path  string
}

// At returns the field below v with the given keys. If it does not exist, its Value is nil.
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

// Each returns the items of a list.
func (v Field) Each() []Field {
	list, _ := v.Value.([]any)
	out := make([]Field, len(list))
	for i, x := range list {
		out[i] = Field{x, v.Path + "[" + strconv.Itoa(i) + "]"}
	}
	return out
}

// all returns the fields that match a path such as "tls[].secretName".
func (v Field) all(path string) (found []Field) {
	list, rest, items := strings.Cut(path, "[].")
	at := v.At(strings.Split(list, ".")...)
	if !items {
		return []Field{at}
	}
	for _, item := range at.Each() {
		found = append(found, item.all(rest)...)
	}
	return found
}

// Text returns the value if it is a string, else "".
func (v Field) Text() string {
	s, _ := v.Value.(string)
	return s
}

// Exists reports whether the field is set.
func (v Field) Exists() bool { return v.Value != nil }

// True reports whether the value is true.
func (v Field) True() bool {
	b, _ := v.Value.(bool)
	return b
}

// Mentions reports whether any string in a value, map keys excepted, contains a name as a whole word:
// "--secret=web-tls" mentions web-tls, but neither web nor tls.
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
	for found := range strings.FieldsFuncSeq(text, func(r rune) bool { return r >= utf8.RuneSelf || !InWord(byte(r)) }) {
		if found == word {
			return true
		}
	}
	return false
}

// InWord reports whether a byte may be part of a word that names an object.
func InWord(b byte) bool {
	return b == '-' || b == '.' || b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}
