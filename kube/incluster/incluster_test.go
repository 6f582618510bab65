package incluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"lockstep/kube/throwaway/testcluster"
)

func TestMain(m *testing.M) { os.Exit(testcluster.Main(m)) }

// TestPack packs tasks and unpacks them as their pods do.
func TestPack(t *testing.T) {
	noise := make([]byte, 3*partSize/2)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(noise)
	for name, files := range map[string]map[string][]byte{
		"none": nil, "one": {"values.yaml": []byte("a: 1\n")}, "several parts": {"chart.tgz": noise, "charts/a/b.tgz": []byte("x")},
	} {
		t.Run(name, func(t *testing.T) {
			args, env := []string{"install", "s", "--set=a b"}, map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "api-key=s3cret"}
			task := Task{Namespace: "n", Release: "s"}
			parts, err := Task{Args: args, Files: files, SecretEnv: env}.pack()
			if err != nil {
				t.Fatal(err)
			}
			job, secrets, _ := task.objects("lockstep-s", parts)
			if spec := fmt.Sprint(job); strings.Contains(spec, "s3cret") {
				t.Errorf("the Job has a secret variable: %s", spec)
			}
			from, into := t.TempDir(), t.TempDir()
			sources := job.Spec.Template.Spec.Volumes[0].Projected.Sources
			for n, s := range secrets {
				if len(s.Data[partKey]) > 1<<20 || sources[n].Secret.Name != s.Name {
					t.Errorf("Secret %s has %d bytes, the pod mounts %s", s.Name, len(s.Data[partKey]), sources[n].Secret.Name)
				}
				if err := os.WriteFile(filepath.Join(from, sources[n].Secret.Items[0].Path), s.Data[partKey], 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, gotEnv, err := Unpack(from, into)
			if err != nil || !slices.Equal(got, args) || !maps.Equal(gotEnv, env) {
				t.Fatalf("arguments %q, %v", got, err)
			}
			for path, data := range files {
				if got, err := os.ReadFile(filepath.Join(into, path)); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%s: %d bytes, %v", path, len(got), err)
				}
			}
		})
	}
	huge := make([]byte, maxPacked+partSize)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(huge)
	var large *TooLargeError
	if _, err := (Task{Files: map[string][]byte{"chart.tgz": huge}}).pack(); !errors.As(err, &large) || !strings.Contains(err.Error(), "oci://") {
		t.Errorf("pack 17 MiB: error %v, want TooLargeError", err)
	}
	if _, _, err := Unpack(t.TempDir(), t.TempDir()); err == nil {
		t.Error("Unpack succeeded without parts")
	}
}

// TestFollower joins the lines of two pods. The log of the first is read twice, as after an outage.
func TestFollower(t *testing.T) {
	f := follower{}
	var got []string
	read := func(pod string, lines ...string) {
		if f.pod != pod {
			f.pod, f.offset = pod, f.lastSeq
		}
		for _, line := range lines {
			if out, ok := f.renumber([]byte(line)); ok {
				got = append(got, string(out))
			}
		}
	}
	read("one", `{"seq":1,"kind":"operation"}`, `{"seq":2,"exit":1}`, "a warning", `{"reply":{}}`)
	read("one", `{"seq":1,"kind":"operation"}`, `{"seq":2,"exit":1}`, `{"seq":3,"kind":"operation","scope":"a","exit":0}`)
	read("two", `{"seq":1,"kind":"operation"}`)
	if f.ended {
		t.Error("ended too early")
	}
	read("two", `{"seq":2,"kind":"operation","exit":0}`)
	want := []string{
		`{"seq":1,"kind":"operation"}`, `{"seq":2,"exit":1}`, `{"reply":{}}`, `{"seq":3,"kind":"operation","scope":"a","exit":0}`,
		`{"seq":4,"kind":"operation"}`, `{"seq":5,"kind":"operation","exit":0}`,
	}
	if !slices.Equal(got, want) || !f.ended {
		t.Errorf("got %q, ended %t", got, f.ended)
	}
}

// dyingTransport sends one request and fails all others, like a client that is killed.
type dyingTransport struct {
	next http.RoundTripper
	sent atomic.Bool
}

func (d *dyingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if d.sent.Swap(true) {
		return nil, errors.New("the client is dead")
	}
	return d.next.RoundTrip(r)
}

// TestClientKilledDuringStart: if the client is killed after it has created the Job, the Job starts no pod and
// fails at its deadline.
func TestClientKilledDuringStart(t *testing.T) {
	config := testcluster.Get(t).Config(t)
	client := kubernetes.NewForConfigOrDie(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &dyingTransport{next: next} })
	killed := kubernetes.NewForConfigOrDie(config)
	task := Task{Namespace: "default", Release: "abandoned", Image: "lockstep", KeepFor: time.Hour}
	if _, err := Start(t.Context(), killed, task); err == nil {
		t.Fatal("Start succeeded with a dead client")
	}
	runs, err := List(t.Context(), client, "default")
	if err != nil || len(runs) != 1 {
		t.Fatalf("%v, %v", runs, err)
	}
	jobs := client.BatchV1().Jobs("default")
	if _, err := jobs.Patch(t.Context(), runs[0].Name, types.MergePatchType, []byte(`{"spec":{"activeDeadlineSeconds":1}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); runs[0].State != "failed"; time.Sleep(100 * time.Millisecond) {
		if runs, err = List(t.Context(), client, "default"); err != nil || len(runs) != 1 || time.Now().After(end) {
			t.Fatalf("%v, %v", runs, err)
		}
	}
	job, err := jobs.Get(t.Context(), runs[0].Name, metav1.GetOptions{})
	if err != nil || job.Status.Active+job.Status.Failed+job.Status.Succeeded > 0 || job.Spec.TTLSecondsAfterFinished == nil {
		t.Errorf("Job: %v, %v", job, err)
	}
}

// TestNamesAreAccepted: the API server accepts the objects of a run, whatever folder its stack is named after, and the run
// keeps that name.
func TestNamesAreAccepted(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(testcluster.Get(t).Config(t))
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	for _, name := range []string{
		"shop", "my.app", "1st", "My Stack", "UPPER", "under_score", "größe", "-dash", "dash-", "a..b", "🚀", "???", strings.Repeat("a", 53), strings.Repeat("a", 80), strings.Repeat("a.", 40),
	} {
		task := Task{Namespace: "default", Release: name, Image: "lockstep", ServiceAccount: "default", KeepFor: time.Hour}
		job, secrets, lease := task.objects(namePrefix(name)+"12345678", [][]byte{{1}, {2}})
		created, err := client.BatchV1().Jobs("default").Create(t.Context(), job, dryRun)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if run := newRun(client, created); run.Release != name {
			t.Errorf("%q: the run is of release %q", name, run.Release)
		}
		for _, s := range secrets {
			if _, err := client.CoreV1().Secrets("default").Create(t.Context(), s, dryRun); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
		if _, err := client.CoordinationV1().Leases("default").Create(t.Context(), lease, dryRun); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: job.Spec.Template.Spec}
		pod.Name = job.Name + "-12345"
		if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, dryRun); err != nil && !strings.Contains(err.Error(), "serviceaccount") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// repeatingTransport repeats every third write, as clients do after a lost response.
type repeatingTransport struct {
	next   http.RoundTripper
	writes atomic.Int64
}

func (t *repeatingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.GetBody == nil || t.writes.Add(1)%3 != 0 {
		return t.next.RoundTrip(r)
	}
	if lost, err := t.next.RoundTrip(r); err != nil {
		return lost, err
	} else if err := lost.Body.Close(); err != nil {
		return nil, err
	}
	again := r.Clone(r.Context())
	again.Body, _ = r.GetBody()
	return t.next.RoundTrip(again)
}

// TestRequestsArriveOnceInOrder sends requests from concurrent senders over a network that loses
// responses: each arrives once, and those of one sender arrive in order.
func TestRequestsArriveOnceInOrder(t *testing.T) {
	const senders, each = 4, 6
	config := testcluster.Get(t).Config(t)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &repeatingTransport{next: next} })
	client := kubernetes.NewForConfigOrDie(config)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := client.CoordinationV1().Leases("default").Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "requests"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Setenv(leaseVar, "default/requests")
	requests := Requests(ctx, client)
	failed := make(chan error, senders)
	for s := range senders {
		go func() {
			for n := range each {
				if err := send(ctx, client, "default", "requests", []byte{byte('a' + s), byte('0' + n), '\n'}); err != nil {
					failed <- err
					cancel() // ends the reader
					return
				}
			}
			failed <- nil
		}()
	}
	text := make([]byte, senders*each*3)
	if _, err := io.ReadFull(requests, text); err != nil {
		t.Error(err)
	}
	for range senders {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	cancel()
	next := map[byte]byte{}
	for _, line := range strings.Fields(string(text)) {
		if line[1] != '0'+next[line[0]] {
			t.Errorf("got %s, want %c%d", line, line[0], next[line[0]])
		}
		next[line[0]]++
	}
	if got := slices.Sorted(maps.Values(next)); !slices.Equal(got, []byte{each, each, each, each}) {
		t.Errorf("got %v requests from the senders", got)
	}
}

// TestForeignJournal: a Secret of somebody else that is named like the journal of a release stays as it is (R31a, S13).
func TestForeignJournal(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(testcluster.Get(t).Config(t))
	secrets := client.CoreV1().Secrets("default")
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: JournalName("taken")}, StringData: map[string]string{"mine": "precious"}}
	before, err := secrets.Create(t.Context(), theirs, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), client, Task{Namespace: "default", Release: "taken", Image: "lockstep", KeepFor: time.Hour}); err == nil || !strings.Contains(err.Error(), before.Name) {
		t.Errorf("Start returned %v", err)
	}
	if after, err := secrets.Get(t.Context(), before.Name, metav1.GetOptions{}); err != nil || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the Secret has changed: %v, %v", after, err)
	}
}
