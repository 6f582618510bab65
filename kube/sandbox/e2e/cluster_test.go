package e2e

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
)

// namespace creates a namespace for a test. It is never deleted, because that takes seconds.
func namespace(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	ns, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

// template returns a pod template; options are "key=value" annotations of the sandbox, or an image.
func template(options ...string) corev1.PodTemplateSpec {
	tpl := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}},
			TerminationGracePeriodSeconds: new(int64)},
	}
	for _, o := range options {
		if k, v, ok := strings.Cut(o, "="); ok {
			tpl.Annotations["sandbox/"+k] = v
		} else {
			tpl.Spec.Containers[0].Image = o
		}
	}
	return tpl
}

// createPod creates a pod named p.
func createPod(t *testing.T, client kubernetes.Interface, ns string, options ...string) {
	t.Helper()
	tpl := template(options...)
	tpl.Name = "p"
	// Pods are admitted once the namespace has its service account.
	eventually(t, "the pod is created", func() bool {
		_, err := client.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{ObjectMeta: tpl.ObjectMeta, Spec: tpl.Spec}, metav1.CreateOptions{})
		return err == nil
	})
}

// waitPod waits until ok returns true for the first container of pod p, and returns its status.
func waitPod(t *testing.T, client kubernetes.Interface, ns, what string, ok func(corev1.ContainerStatus) bool) corev1.ContainerStatus {
	t.Helper()
	var c corev1.ContainerStatus
	eventually(t, what, func() bool {
		pod, err := client.CoreV1().Pods(ns).Get(t.Context(), "p", metav1.GetOptions{})
		if err != nil || len(pod.Status.ContainerStatuses) == 0 {
			return false
		}
		c = pod.Status.ContainerStatuses[0]
		return ok(c)
	})
	return c
}

// eventsOf returns an event of pod p for each reason, with the total count of that reason.
func eventsOf(t *testing.T, client kubernetes.Interface, ns string) map[string]corev1.Event {
	t.Helper()
	list, err := client.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=p"})
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]corev1.Event{}
	for _, e := range list.Items {
		e.Count += m[e.Reason].Count
		m[e.Reason] = e
	}
	return m
}

func TestVersion(t *testing.T) {
	// Read the source of the program, so that go test does not reuse a cached result after it has changed.
	if err := filepath.WalkDir("..", func(_ string, _ fs.DirEntry, err error) error { return err }); err != nil {
		t.Fatal(err)
	}
	client, _ := cluster(t)
	v, err := client.Discovery().ServerVersion()
	if err != nil || !strings.HasPrefix(v.GitVersion, "v1.") || strings.Contains(v.GitVersion, "$") {
		t.Errorf("%v, %v", v, err)
	}
}

func TestDeployment(t *testing.T) {
	client, _ := cluster(t)
	t.Parallel()
	ns, two := namespace(t, client), int32(2)
	_, err := client.AppsV1().Deployments(ns).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &two, Template: template("ready-delay=100ms"),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the deployment is available", func() bool {
		d, err := client.AppsV1().Deployments(ns).Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && d.Status.AvailableReplicas == two && d.Status.ObservedGeneration == d.Generation
	})
	if err := client.AppsV1().Deployments(ns).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its pods are gone", func() bool {
		pods, err := client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(pods.Items) == 0
	})
}

func TestJob(t *testing.T) {
	client, _ := cluster(t)
	t.Parallel()
	ns := namespace(t, client)
	job := func(name string, options ...string) {
		tpl := template(options...)
		tpl.Spec.RestartPolicy = corev1.RestartPolicyNever
		_, err := client.BatchV1().Jobs(ns).Create(t.Context(),
			&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{Template: tpl, BackoffLimit: new(int32)}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	job("good", "run-duration=100ms")
	job("bad", "run-duration=100ms", "exit-code=3")
	job("stopped", "run-duration=1h")
	eventually(t, "one job succeeds, one fails, one runs", func() bool {
		good, err1 := client.BatchV1().Jobs(ns).Get(t.Context(), "good", metav1.GetOptions{})
		bad, err2 := client.BatchV1().Jobs(ns).Get(t.Context(), "bad", metav1.GetOptions{})
		stopped, err3 := client.BatchV1().Jobs(ns).Get(t.Context(), "stopped", metav1.GetOptions{})
		return err1 == nil && err2 == nil && err3 == nil &&
			good.Status.Succeeded == 1 && bad.Status.Failed == 1 && stopped.Status.Ready != nil && *stopped.Status.Ready == 1
	})
	// A suspended job deletes its pod, and waits for the pod's final phase.
	if _, err := client.BatchV1().Jobs(ns).Patch(t.Context(), "stopped", "application/merge-patch+json", []byte(`{"spec":{"suspend":true}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the suspended job has no pods", func() bool {
		pods, err := client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "job-name=stopped"})
		return err == nil && len(pods.Items) == 0
	})
}

func TestMissingImage(t *testing.T) {
	client, _ := cluster(t)
	t.Parallel()
	ns := namespace(t, client)
	createPod(t, client, ns, "registry.example/no-such-image:1")
	for _, reason := range []string{"ErrImagePull", "ImagePullBackOff"} {
		waitPod(t, client, ns, reason, func(c corev1.ContainerStatus) bool {
			return c.State.Waiting != nil && c.State.Waiting.Reason == reason
		})
	}
	eventually(t, "its events exist", func() bool {
		m := eventsOf(t, client, ns)
		return m["Pulling"].Count == 1 && m["Failed"].Count == 3 && m["BackOff"].Count == 1
	})
	e := eventsOf(t, client, ns)["BackOff"]
	o := e.InvolvedObject
	if e.Source.Component != "kubelet" || e.Source.Host == "" || e.Type != corev1.EventTypeNormal || e.Message != `Back-off pulling image "registry.example/no-such-image:1"` ||
		o.Kind != "Pod" || o.APIVersion != "v1" || o.Name != "p" || o.UID == "" || o.FieldPath != "spec.containers{app}" || e.LastTimestamp.IsZero() {
		t.Errorf("event: %+v", e)
	}
}

func TestCrashLoop(t *testing.T) {
	client, _ := cluster(t)
	t.Parallel()
	ns := namespace(t, client)
	createPod(t, client, ns, "exit-code=3", "run-duration=0s", "log=one\ntwo")
	c := waitPod(t, client, ns, "it has crashed twice", func(c corev1.ContainerStatus) bool {
		return c.RestartCount == 1 && c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff"
	})
	if c.LastTerminationState.Terminated == nil || c.LastTerminationState.Terminated.ExitCode != 3 {
		t.Errorf("last state: %+v", c.LastTerminationState)
	}
	log, err := client.CoreV1().Pods(ns).GetLogs("p", &corev1.PodLogOptions{Previous: true}).DoRaw(t.Context())
	if string(log) != "one\ntwo\n" || err != nil {
		t.Errorf("log of the previous attempt: %q, %v", log, err)
	}
	eventually(t, "repeated events are counted in one object", func() bool {
		list, err := client.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=BackOff"})
		return err == nil && len(list.Items) == 1 && list.Items[0].Count >= 2 && list.Items[0].Type == corev1.EventTypeWarning
	})
}

func TestAnnotationsCanChange(t *testing.T) {
	client, _ := cluster(t)
	t.Parallel()
	ns := namespace(t, client)
	createPod(t, client, ns, "fail=never-ready", "stop-duration=soon")
	waitPod(t, client, ns, "it runs", func(c corev1.ContainerStatus) bool { return c.State.Running != nil && !c.Ready })
	eventually(t, "events report the failing probe and the invalid annotation", func() bool {
		m := eventsOf(t, client, ns)
		return m["Unhealthy"].Count > 0 && m["SandboxAnnotation"].Count > 0
	})
	if _, err := client.CoreV1().Pods(ns).Patch(t.Context(), "p", "application/merge-patch+json", []byte(`{"metadata":{"annotations":{"sandbox/fail":null}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	waitPod(t, client, ns, "it is ready", func(c corev1.ContainerStatus) bool { return c.Ready })
}

func TestLogs(t *testing.T) {
	client, _ := cluster(t)
	t.Parallel()
	ns := namespace(t, client)
	createPod(t, client, ns, "start-delay=1h", "log=one\ntwo\nthree")
	logs := func(o corev1.PodLogOptions) (string, error) {
		r, err := client.CoreV1().Pods(ns).GetLogs("p", &o).Stream(t.Context())
		if err != nil {
			return "", err
		}
		defer r.Close()
		data, err := io.ReadAll(r)
		return string(data), err
	}
	waitPod(t, client, ns, "it is starting", func(c corev1.ContainerStatus) bool { return c.State.Waiting != nil })
	if _, err := logs(corev1.PodLogOptions{}); err == nil || !strings.Contains(err.Error(), `container "app" in pod "p" is waiting to start: ContainerCreating`) {
		t.Errorf("log of a starting pod: %v", err)
	}
	if _, err := client.CoreV1().Pods(ns).Patch(t.Context(), "p", "application/merge-patch+json", []byte(`{"metadata":{"annotations":{"sandbox/start-delay":null}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	waitPod(t, client, ns, "it runs", func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
	two := int64(2)
	if text, err := logs(corev1.PodLogOptions{TailLines: &two}); text != "two\nthree\n" || err != nil {
		t.Errorf("tail: %q, %v", text, err)
	}
	if text, err := logs(corev1.PodLogOptions{Timestamps: true, TailLines: new(int64)}); text != "" || err != nil {
		t.Errorf("tail of 0 lines: %q, %v", text, err)
	}
	r, err := client.CoreV1().Pods(ns).GetLogs("p", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := client.CoreV1().Pods(ns).Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(r); string(data) != "one\ntwo\nthree\n" || err != nil {
		t.Errorf("followed to the end of the pod: %q, %v", data, err)
	}
}

func TestCloud(t *testing.T) {
	client, _ := cluster(t)
	t.Parallel()
	ns := namespace(t, client)
	late := metav1.ObjectMeta{Name: "late", Annotations: map[string]string{"sandbox/ready-after": "300ms"}}
	never := metav1.ObjectMeta{Name: "never", Annotations: map[string]string{"sandbox/fail": "yes"}}
	for _, m := range []metav1.ObjectMeta{late, never} {
		_, err := client.CoreV1().PersistentVolumeClaims(ns).Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: m, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.CoreV1().Services(ns).Create(t.Context(), &corev1.Service{ObjectMeta: m,
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.NetworkingV1().Ingresses(ns).Create(t.Context(), &networkingv1.Ingress{ObjectMeta: m,
			Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "late",
				Port: networkingv1.ServiceBackendPort{Number: 80}}}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	state := func(name string) (bound, service, ingress bool) {
		c, err1 := client.CoreV1().PersistentVolumeClaims(ns).Get(t.Context(), name, metav1.GetOptions{})
		s, err2 := client.CoreV1().Services(ns).Get(t.Context(), name, metav1.GetOptions{})
		i, err3 := client.NetworkingV1().Ingresses(ns).Get(t.Context(), name, metav1.GetOptions{})
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatal(err1, err2, err3)
		}
		return c.Status.Phase == corev1.ClaimBound, len(s.Status.LoadBalancer.Ingress) > 0, len(i.Status.LoadBalancer.Ingress) > 0
	}
	eventually(t, "volume and addresses exist", func() bool {
		a, b, c := state("late")
		return a && b && c
	})
	if a, b, c := state("never"); a || b || c {
		t.Errorf("with sandbox/fail: volume %v, service %v, ingress %v", a, b, c)
	}
}

func TestCustomResource(t *testing.T) {
	_, dyn := cluster(t)
	t.Parallel()
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	for plural, sub := range map[string]string{"databases": `,"subresources":{"status":{}}`, "caches": ""} {
		kind := strings.ToUpper(plural[:1]) + plural[1:]
		create(t, func(o *unstructured.Unstructured) error {
			_, err := dyn.Resource(crds).Create(t.Context(), o, metav1.CreateOptions{})
			return err
		}, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"`+plural+`.example.com"},
			"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"`+plural+`","kind":"`+kind+`"},"versions":[{"name":"v1","served":true,"storage":true`+sub+`,
			"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`)
		objects := dyn.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: plural}).Namespace("default")
		create(t, func(o *unstructured.Unstructured) error {
			_, err := objects.Create(t.Context(), o, metav1.CreateOptions{})
			return err
		}, `{"apiVersion":"example.com/v1","kind":"`+kind+`","metadata":{"name":"x","annotations":{"sandbox/ready-after":"300ms"}},"spec":{"size":1}}`)
		waitReady(t, objects.Get, plural)
		if _, err := objects.Patch(t.Context(), "x", "application/merge-patch+json", []byte(`{"spec":{"size":2}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		waitReady(t, objects.Get, plural+" after a change")
		if _, err := objects.Patch(t.Context(), "x", "application/merge-patch+json",
			[]byte(`{"metadata":{"annotations":{"sandbox/status":"{\"phase\":\"Done\"}"}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the object has the status of the annotation", func() bool {
			o, err := objects.Get(t.Context(), "x", metav1.GetOptions{})
			if err != nil {
				return false
			}
			phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
			return phase == "Done"
		})
	}
}

// create creates an object once its kind is served.
func create(t *testing.T, f func(*unstructured.Unstructured) error, text string) {
	t.Helper()
	eventually(t, "the object is created", func() bool {
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		return f(o) == nil
	})
}

func waitReady(t *testing.T, get func(context.Context, string, metav1.GetOptions, ...string) (*unstructured.Unstructured, error), what string) {
	t.Helper()
	eventually(t, "ready: "+what, func() bool {
		o, err := get(t.Context(), "x", metav1.GetOptions{})
		if err != nil {
			return false
		}
		observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		return observed == o.GetGeneration() && len(conditions) == 1 && conditions[0].(map[string]any)["status"] == "True"
	})
}
