package refs

import "lockstep/engine/plan"

// Pods is the pod template of an object; for a Pod, the Pod itself.
type Pods struct {
	Meta map[string]any // may be nil
	Spec map[string]any
	Path string // the path of Spec in the object: "spec.template.spec"
	// None is set if the object creates no pods: it is a PodTemplate, is suspended, or has 0 replicas or parallelism.
	None bool
}

var podTemplatePaths = map[plan.GroupKind][]string{
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

// FindPods returns the pod template of an object. ok is false if its kind has none, or if the object has no valid pod
// spec.
func FindPods(object plan.Object, fields map[string]any) (pods Pods, ok bool) {
	keys, ok := podTemplatePaths[object.GroupKind()]
	if !ok {
		return Pods{}, false
	}
	template := Field{fields, ""}.At(keys...)
	spec := template.At("spec")
	p := Pods{Path: spec.Path}
	p.Meta, _ = template.At("metadata").Value.(map[string]any)
	if p.Spec, ok = spec.Value.(map[string]any); !ok {
		return Pods{}, false
	}
	objectSpec := Field{fields, ""}.At("spec")
	p.None = object.Kind == "PodTemplate" || isZero(objectSpec.At("replicas").Value) || isZero(objectSpec.At("parallelism").Value) || objectSpec.At("suspend").True()
	return p, true
}

// Unprobed returns the name of the first container of a workload that has neither a readiness nor a startup probe, "" if
// there is none. Only containers that run until their pod is deleted count: not those of Jobs, nor init containers that end.
func Unprobed(object plan.Object, fields map[string]any) string {
	pods, ok := FindPods(object, fields)
	if !ok || pods.None || object.Group == "batch" {
		return ""
	}
	spec := Field{pods.Spec, pods.Path}
	if policy := spec.At("restartPolicy").Text(); policy != "" && policy != "Always" {
		return ""
	}
	lasting := spec.At("containers").Each()
	for _, c := range spec.At("initContainers").Each() {
		if c.At("restartPolicy").Text() == "Always" { // a sidecar
			lasting = append(lasting, c)
		}
	}
	for _, c := range lasting {
		if !c.At("readinessProbe").Exists() && !c.At("startupProbe").Exists() {
			return c.At("name").Text()
		}
	}
	return ""
}

// isZero reports whether a value is the number 0. A missing value is not.
func isZero(v any) bool {
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

// pod reads the spec of a pod. It skips the volumes in replaced: a StatefulSet's claim templates replace them.
func (f *finder) pod(spec Field, replaced map[string]bool) {
	accountKey := "serviceAccountName"
	if spec.At(accountKey).Text() == "" {
		accountKey = "serviceAccount" // deprecated
	}
	f.read(spec, []refField{
		{Account, account, accountKey}, {Priority, priorityClass, "priorityClassName"}, {Runtime, runtimeClass, "runtimeClassName"},
		{Pull, secret, "imagePullSecrets[].name"},
	})
	for _, c := range containersOf(spec) {
		f.container(c)
	}
	mounted := mountedVolumes(spec)
	for _, v := range spec.At("volumes").Each() {
		if name := v.At("name").Text(); !replaced[name] {
			f.volume(v, mounted[name])
		}
	}
}

// mountedVolumes returns the names of the volumes that a container mounts. The kubelet skips the others.
func mountedVolumes(spec Field) map[string]bool {
	mounted := map[string]bool{}
	for _, c := range containersOf(spec) {
		for _, m := range c.At("volumeMounts").Each() {
			mounted[m.At("name").Text()] = true
		}
	}
	return mounted
}

// containersOf returns all containers in the spec of a pod.
func containersOf(spec Field) (all []Field) {
	for _, kind := range []string{"initContainers", "containers", "ephemeralContainers"} {
		all = append(all, spec.At(kind).Each()...)
	}
	return all
}

func (f *finder) container(c Field) {
	for _, e := range c.At("envFrom").Each() {
		f.source(Environment, configMap, e.At("configMapRef"), "name")
		f.source(Environment, secret, e.At("secretRef"), "name")
	}
	for _, e := range c.At("env").Each() {
		f.source(Environment, configMap, e.At("valueFrom", "configMapKeyRef"), "name")
		f.source(Environment, secret, e.At("valueFrom", "secretKeyRef"), "name")
	}
}

// source adds a reference to the ConfigMap or Secret that a source names, with the keys that it names.
func (f *finder) source(use Use, kind plan.GroupKind, source Field, nameKey string) {
	r := f.addNamed(use, kind, source.At(nameKey))
	r.Optional = source.At("optional").True()
	if key := source.At("key").Text(); key != "" {
		r.Keys = append(r.Keys, key)
	}
	for _, item := range source.At("items").Each() {
		if key := item.At("key").Text(); key != "" {
			r.Keys = append(r.Keys, key)
		}
	}
}

// volumeFields are the fields of volumes that name a Secret with credentials.
var volumeFields = []refField{
	{Volume, secret, "azureFile.secretName"}, {Volume, secret, "csi.nodePublishSecretRef.name"}, {Volume, secret, "cephfs.secretRef.name"},
	{Volume, secret, "cinder.secretRef.name"}, {Volume, secret, "flexVolume.secretRef.name"}, {Volume, secret, "iscsi.secretRef.name"},
	{Volume, secret, "rbd.secretRef.name"}, {Volume, secret, "scaleIO.secretRef.name"}, {Volume, secret, "storageos.secretRef.name"},
}

// volume reads a volume. Pods need its claim even if no container mounts it, because the scheduler waits for the claims
// of all volumes; only the kubelet needs the rest.
func (f *finder) volume(v Field, mounted bool) {
	f.addNamed(Claim, claim, v.At("persistentVolumeClaim", "claimName"))
	f.claim(v.At("ephemeral", "volumeClaimTemplate"))
	if !mounted {
		return
	}
	f.source(Volume, configMap, v.At("configMap"), "name")
	f.source(Volume, secret, v.At("secret"), "secretName")
	for _, s := range v.At("projected", "sources").Each() {
		f.source(Volume, configMap, s.At("configMap"), "name")
		f.source(Volume, secret, s.At("secret"), "name")
	}
	f.read(v, volumeFields)
}

// claim reads a PersistentVolumeClaim, or a template of one.
func (f *finder) claim(c Field) {
	class := c.At("spec", "storageClassName")
	if !class.Exists() {
		class = c.At("metadata", "annotations", claimClassBeta)
	}
	f.addNamed(Storage, storageClass, class)
	f.addNamed(Bound, persistentVolume, c.At("spec", "volumeName"))
}

// KeepsPods reports whether an object keeps the pods that it has when its pod template changes: nothing rolls out the new one.
func KeepsPods(o plan.Object) bool {
	return o.GroupKind() == plan.GroupKind{Kind: "ReplicationController"} || o.GroupKind() == plan.GroupKind{Group: "apps", Kind: "ReplicaSet"}
}
