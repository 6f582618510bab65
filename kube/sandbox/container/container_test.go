package container

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestPathMapReplace(t *testing.T) {
	m := pathMap{"/tmp": "/r/tmp", "/etc/run": "/r/etc/run", "/etc/run/deep": "/r/etc/run/deep"}
	for text, want := range map[string]string{
		"/tmp":                       "/r/tmp",
		"--values=/etc/run/v.yaml":   "--values=/r/etc/run/v.yaml",
		"/etc/run/deep/x":            "/r/etc/run/deep/x",
		"/etc/running /var/tmp /tmp": "/etc/running /var/tmp /r/tmp",
		"/tmp:/tmp,/etc/run":         "/r/tmp:/r/tmp,/r/etc/run",
		"https://host/tmp":           "https://host/tmp",
		"a/tmp -f/tmp":               "a/tmp -f/tmp",
		"":                           "",
	} {
		if got := m.replace(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestProcessContainer(t *testing.T) {
	for image, want := range map[string]string{
		"lockstep": "c", "lockstep:v1": "c", "ghcr.io/team/lockstep@sha256:" + strings.Repeat("0", 64): "c", "localhost:5000/lockstep": "c",
		"lockstep/app": "", "my-lockstep": "", "Not A Name": "",
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "other", Image: "app:1"}, {Name: "c", Image: image}}}}
		if got := (&Runtime{program: "/bin/lockstep"}).ProcessContainer(pod); got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
		if got := (&Runtime{}).ProcessContainer(pod); got != "" {
			t.Errorf("%s: %q without a program", image, got)
		}
	}
}

// A log that is too long drops its oldest lines, and a reader continues with the rest.
func TestLogDropsOldLines(t *testing.T) {
	var l Log
	long := strings.Repeat("x", logSize/4)
	_, next, _ := l.From(0)
	for _, c := range "abcdef" {
		l.add(string(c) + long + "\n")
	}
	lines, next, changed := l.From(next)
	var kept strings.Builder
	for _, line := range lines {
		kept.WriteString(line.Text[:1])
	}
	if kept.String() != "def" || next != 6 || changed == nil {
		t.Errorf("kept %s, next %d", kept.String(), next)
	}
	l.end()
	<-changed
	if lines, next, changed := l.From(next); len(lines) != 0 || next != 6 || changed != nil {
		t.Errorf("after the end: %d lines, next %d", len(lines), next)
	}
}

// tokens answers requests for tokens: token-1, token-2 …, each good for ten minutes.
func tokens(client *fake.Clientset, requests *[]authenticationv1.TokenRequestSpec) {
	client.PrependReactor("create", "serviceaccounts", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenRequest)
		*requests = append(*requests, r.Spec)
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{
			Token: "token-" + string(rune('0'+len(*requests))), ExpirationTimestamp: metav1.NewTime(time.Now().Add(10 * time.Minute))}}, nil
	})
}

func TestVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Data: map[string][]byte{"a": []byte("A"), "b": []byte("B")}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}, Data: map[string]string{"c": "C"}, BinaryData: map[string][]byte{"d": {0}}})
		var requests []authenticationv1.TokenRequestSpec
		tokens(client, &requests)
		ref := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Labels: map[string]string{"app": "x"}}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "lockstep", WorkingDir: "/work", VolumeMounts: []corev1.VolumeMount{
				{Name: "all", MountPath: "/in/all"}, {Name: "one", MountPath: "/in"}, {Name: "one", MountPath: "/b.txt", SubPath: "sub/b"}, {Name: "empty", MountPath: "/tmp"}}}},
			Volumes: []corev1.Volume{
				{Name: "one", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Items: []corev1.KeyToPath{{Key: "b", Path: "sub/b"}}}}},
				{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{Secret: &corev1.SecretProjection{LocalObjectReference: ref("s")}},
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: ref("m")}},
					{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}},
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault", Path: "t"}}}}}}},
		}}
		dir := t.TempDir()
		c := &containerRun{Runtime: &Runtime{program: "/p", client: client, host: "127.0.0.1", port: "1"}, pod: pod, spec: &pod.Spec.Containers[0], dir: dir}
		cmd, err := c.prepare(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		root := filepath.Join(dir, "root")
		if cmd.Dir != root+"/work" || !slices.Contains(cmd.Env, "TMPDIR="+root+"/tmp") {
			t.Errorf("in %s with %q", cmd.Dir, cmd.Env)
		}
		reads := func(want map[string]string) {
			t.Helper()
			for name, text := range want {
				if data, err := os.ReadFile(filepath.Join(root, name)); string(data) != text || err != nil {
					t.Errorf("%s: %q, %v", name, data, err)
				}
			}
		}
		reads(map[string]string{"in/sub/b": "B", "b.txt": "B", "in/all/a": "A", "in/all/b": "B", "in/all/c": "C", "in/all/d": "\x00", "in/all/labels": `app="x"`, "in/all/t": "token-1"})
		r := requests[0]
		if r.Audiences[0] != "vault" || r.BoundObjectRef.UID != "u" || r.BoundObjectRef.Name != "p" {
			t.Errorf("request: %+v", r)
		}

		// Files in an empty volume survive a restart; tokens are renewed before they expire.
		if err := os.WriteFile(root+"/tmp/kept", []byte("K"), 0o600); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go c.refresh(done)
		time.Sleep(8*time.Minute + time.Second)
		synctest.Wait()
		reads(map[string]string{"in/all/t": "token-2"})
		close(done)
		c.tokens = nil
		if _, err := c.prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		reads(map[string]string{"tmp/kept": "K", "in/all/t": "token-3"})
	})
}
