package refs

import "lockstep/engine/plan"

// Pods are those that an object is, or makes.
type Pods struct {
	// Meta is the metadata of the pods, which may be nil, Spec their spec, and
	// Path the field that it is in.
	Meta, Spec map[string]any
	Path       string
	// None tells that the object makes none as it stands: it has 0 replicas, or
	// is suspended.
	None bool
}

// podsIn is where the kinds that have pods keep their template.
var podsIn = map[plan.GroupKind][]string{
	{Kind: "Pod"}:                             {},
	{Kind: "PodTemplate"}:                     {"template"},
	{Kind: "ReplicationController"}:           {"spec", "template"},
	{Group: "apps", Kind: "Deployment"}:       {"spec", "template"},
	{Group: "apps", Kind: "ReplicaSet"}:       {"spec", "template"},
	{Group: "apps", Kind: "StatefulSet"}:      {"spec", "template"},
	{Group: "apps", Kind: "DaemonSet"}:        {"spec", "template"},
	{Group: "batch", Kind: "Job"}:             {"spec", "template"},
	{Group: "batch", Kind: "CronJob"}:         {"spec", "jobTemplate", "spec", "template"},
	{Group: "extensions", Kind: "Deployment"}: {"spec", "template"},
	{Group: "extensions", Kind: "ReplicaSet"}: {"spec", "template"},
	{Group: "extensions", Kind: "DaemonSet"}:  {"spec", "template"},
}

// PodsOf are the pods of an object, if its kind has any.
func PodsOf(name plan.Object, object map[string]any) (Pods, bool) {
	keys, ok := podsIn[plan.GroupKind{Group: name.Group, Kind: name.Kind}]
	if !ok {
		return Pods{}, false
	}
	template := field{object, ""}.at(keys...)
	spec := template.at("spec")
	p := Pods{Path: spec.path}
	p.Meta, _ = template.at("metadata").value.(map[string]any)
	if p.Spec, ok = spec.value.(map[string]any); !ok {
		return Pods{}, false
	}
	own := field{object, ""}.at("spec")
	p.None = zero(own.at("replicas").value) || zero(own.at("parallelism").value) || own.at("suspend").yes()
	return p, true
}

func zero(v any) bool {
	switch n := v.(type) {
	case int64:
		return n == 0
	case float64:
		return n == 0
	case int:
		return n == 0
	}
	return false
}

// pod reads the spec of a pod.
func (f *finder) pod(spec field) {
	f.account(spec)
	f.name(Priority, priorityClass, spec.at("priorityClassName"))
	f.name(Runtime, runtimeClass, spec.at("runtimeClassName"))
	for _, s := range spec.at("imagePullSecrets").each() {
		f.name(Pull, secret, s.at("name"))
	}
	for _, kind := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for _, c := range spec.at(kind).each() {
			f.container(c)
		}
	}
	for _, v := range spec.at("volumes").each() {
		f.volume(v)
	}
}

// account is the ServiceAccount, which has an old name, too.
func (f *finder) account(spec field) {
	at := spec.at("serviceAccountName")
	if at.text() == "" {
		at = spec.at("serviceAccount")
	}
	f.name(Account, account, at)
}

func (f *finder) container(c field) {
	for _, e := range c.at("envFrom").each() {
		f.entries(Environment, configMap, e.at("configMapRef"), "name")
		f.entries(Environment, secret, e.at("secretRef"), "name")
	}
	for _, e := range c.at("env").each() {
		f.entries(Environment, configMap, e.at("valueFrom", "configMapKeyRef"), "name")
		f.entries(Environment, secret, e.at("valueFrom", "secretKeyRef"), "name")
	}
}

// entries adds a ConfigMap or Secret whose name is in a field of a source, which
// also says which keys are needed and whether it is.
func (f *finder) entries(use Use, kind plan.GroupKind, source field, name string) {
	r := f.name(use, kind, source.at(name))
	r.Optional = source.at("optional").yes()
	if key := source.at("key").text(); key != "" {
		r.Keys = append(r.Keys, key)
	}
	for _, item := range source.at("items").each() {
		if key := item.at("key").text(); key != "" {
			r.Keys = append(r.Keys, key)
		}
	}
}

// opened are the kinds of volumes that a Secret opens, and where they name it.
var opened = [][]string{
	{"azureFile", "secretName"}, {"csi", "nodePublishSecretRef", "name"}, {"cephfs", "secretRef", "name"}, {"cinder", "secretRef", "name"},
	{"flexVolume", "secretRef", "name"}, {"iscsi", "secretRef", "name"}, {"rbd", "secretRef", "name"}, {"scaleIO", "secretRef", "name"}, {"storageos", "secretRef", "name"},
}

func (f *finder) volume(v field) {
	f.entries(Volume, configMap, v.at("configMap"), "name")
	f.entries(Volume, secret, v.at("secret"), "secretName")
	for _, s := range v.at("projected", "sources").each() {
		f.entries(Volume, configMap, s.at("configMap"), "name")
		f.entries(Volume, secret, s.at("secret"), "name")
	}
	for _, keys := range opened {
		f.name(Volume, secret, v.at(keys...))
	}
	f.name(Claim, claim, v.at("persistentVolumeClaim", "claimName"))
	f.claim(v.at("ephemeral", "volumeClaimTemplate"))
}

// claim reads a PersistentVolumeClaim, or a template of one.
func (f *finder) claim(c field) {
	class := c.at("spec", "storageClassName")
	if !class.there() {
		class = c.at("metadata", "annotations", claimClassBeta)
	}
	f.name(Storage, storageClass, class)
	f.name(Bound, volume, c.at("spec", "volumeName"))
}
