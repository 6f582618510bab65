// Package incluster runs lockstep in the cluster, as a Job whose pod gets the command line, the chart and the values
// from Secrets. It does not run operations: a Task is a command line with files. Of the output, a Conn reads only the
// sequence numbers of events and the closing event. The central types are Task, Run and Conn. Only package kube imports it.
//
// A run and its clients communicate only through the API server. The output is the pod's log: it costs no writes, any
// number of screens can read it, and one that connects later gets the earlier lines too, unless the kubelet has rotated
// the log. Requests are annotations of a Lease: it is small, and controllers ignore it. A CustomResourceDefinition would need permissions for the whole cluster, and a server in the
// pod would need an open port. Users who may read Jobs, pods and pods/log can watch a run; those who may also update the
// Lease can control it.
//
// What the run must not forget when its pod is replaced is in another Secret, the journal.
//
// With Start, the Job owns the Secrets and the Lease, so they are deleted with it. The objects from Manifests have no
// owner.
package incluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"

	"lockstep/kube/names"
)

const (
	// LabelRelease is the label with the release on a run's Job and pod.
	LabelRelease = "lockstep/release"
	// Container is the name of the pod's container.
	Container = "lockstep"

	labelManaged      = "app.kubernetes.io/managed-by"
	annotationCommand = "lockstep/command"
	annotationRelease = "lockstep/release-name" // if it is not the value of LabelRelease
	annotationBy      = "lockstep/started-by"

	// Input is the directory of the packed task in the pod. Work is a writable directory.
	Input = "/lockstep-input"
	Work  = "/tmp"

	// startTimeout limits how long the Job waits for its Secrets. If lockstep is killed before it has created them, the
	// Job fails after this time.
	startTimeout = 2 * time.Minute
	// stopSeconds is how long a run whose Job was deleted may take to end its release. Other pods end at once.
	stopSeconds = 30
	// maxPodReplacements limits how often a killed pod is replaced.
	maxPodReplacements = 100
)

// Task is a command line to run in the cluster.
type Task struct {
	Namespace string
	// Release and Command identify the run.
	Release, Command string
	// Args are the arguments of lockstep. Paths in them must be relative.
	Args []string
	// Files are the contents of the working directory, by path.
	Files map[string][]byte
	// Env are additional environment variables. SecretEnv are those that are packed like Args, not in the pod's spec.
	Env, SecretEnv map[string]string
	// Image has lockstep as its entrypoint.
	Image string
	// ServiceAccount is the account that the run uses.
	ServiceAccount string
	// KeepFor is how long the Job is kept after it ends.
	KeepFor time.Duration
	// By is the user who started the run.
	By string
	// Approvals makes the run accept only approvals that are written to its Lease (R42a).
	Approvals bool
}

// objects returns the objects of a packed task, without owner references: the Job, its Secrets and its Lease. name is the
// name of the Job.
func (t Task) objects(name string, parts [][]byte) (job *batchv1.Job, secrets []*corev1.Secret, lease *coordinationv1.Lease) {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: t.Namespace, Labels: t.labels()}
	}
	for n, part := range parts {
		m := meta(name + "-" + strconv.Itoa(n))
		secrets = append(secrets, &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: m, Immutable: new(true), Data: map[string][]byte{partKey: part}})
	}
	lease = &coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}, ObjectMeta: meta(name)}
	if t.Approvals {
		protect(lease, t.Release, t.By)
	}
	m := meta(name)
	m.Annotations = map[string]string{annotationCommand: t.Command, annotationBy: t.By}
	if m.Labels[LabelRelease] != t.Release {
		m.Annotations[annotationRelease] = t.Release
	}
	job = &batchv1.Job{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: m, Spec: t.jobSpec(name, secrets)}
	return job, secrets, lease
}

// labels returns the labels of the objects. The name of a stack may be that of any folder.
func (t Task) labels() map[string]string {
	return map[string]string{labelManaged: "lockstep", LabelRelease: names.Of(t.Release)}
}

// jobSpec returns the spec of the Job. When lockstep exits, with any code, the Job ends. A pod that is killed or evicted
// is replaced, and the run resumes (R50).
func (t Task) jobSpec(name string, secrets []*corev1.Secret) batchv1.JobSpec {
	return batchv1.JobSpec{
		Completions:             new(int32(1)),
		BackoffLimit:            new(int32(maxPodReplacements)),
		ActiveDeadlineSeconds:   new(int64(startTimeout / time.Second)),
		TTLSecondsAfterFinished: new(int32(t.KeepFor / time.Second)),
		PodReplacementPolicy:    new(batchv1.Failed),
		PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
			{Action: batchv1.PodFailurePolicyActionIgnore, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
			}},
			{Action: batchv1.PodFailurePolicyActionFailJob, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				ContainerName: new(Container), Operator: batchv1.PodFailurePolicyOnExitCodesOpNotIn, Values: []int32{exitKilled, exitTerminated},
			}},
		}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: t.labels()},
			Spec:       t.podSpec(name, secrets),
		},
	}
}

// Exit codes of killed processes.
const (
	exitKilled     = 137
	exitTerminated = 143
)

func (t Task) podSpec(name string, secrets []*corev1.Secret) corev1.PodSpec {
	input := &corev1.ProjectedVolumeSource{DefaultMode: new(int32(0o444))}
	for n, s := range secrets {
		input.Sources = append(input.Sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: s.Name}, Items: []corev1.KeyToPath{{Key: partKey, Path: partName(n)}},
		}})
	}
	uid := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + batchv1.ControllerUidLabel + "']"}}
	env := []corev1.EnvVar{
		{Name: "HOME", Value: Work}, {Name: leaseVar, Value: t.Namespace + "/" + name}, {Name: jobUIDVar, ValueFrom: uid},
		{Name: journalVar, Value: JournalName(t.Release)},
	}
	if t.Approvals {
		env = append(env, corev1.EnvVar{Name: approvalsVar, Value: "true"})
	}
	for _, key := range slices.Sorted(maps.Keys(t.Env)) {
		env = append(env, corev1.EnvVar{Name: key, Value: t.Env[key]})
	}
	return corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: t.ServiceAccount, EnableServiceLinks: new(false),
		TerminationGracePeriodSeconds: new(int64(stopSeconds)), NodeSelector: map[string]string{"kubernetes.io/os": "linux"},
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(65532)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Volumes: []corev1.Volume{
			{Name: "input", VolumeSource: corev1.VolumeSource{Projected: input}},
			{Name: "work", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
		Containers: []corev1.Container{{
			Name: Container, Image: t.Image, Args: []string{CommandName, Input, Work}, Env: env, WorkingDir: Work,
			VolumeMounts: []corev1.VolumeMount{{Name: "input", MountPath: Input, ReadOnly: true}, {Name: "work", MountPath: Work}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		}},
	}
}

// CommandName is the command of lockstep that runs a packed task.
const CommandName = "run-packed"

// Run is a task's Job in the cluster.
type Run struct {
	Namespace, Name      string
	Release, Command, By string
	Started              time.Time
	State                string    // waiting, running, succeeded, failed or suspended
	Over                 time.Time // when it succeeded or failed, else zero
	uid                  types.UID
	kube                 kubernetes.Interface
}

// Start creates the objects of a task. If that fails, it deletes them.
func Start(ctx context.Context, kube kubernetes.Interface, t Task) (*Run, error) {
	parts, err := t.pack()
	if err != nil {
		return nil, err
	}
	name := namePrefix(t.Release) + utilrand.String(5)
	job, secrets, lease := t.objects(name, parts)
	job.Spec.Parallelism = new(int32(0)) // no pod until its Secrets exist, because the kubelet is slow to retry a failed mount
	job, err = kube.BatchV1().Jobs(t.Namespace).Create(ctx, job, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create Job %s/%s: %w", t.Namespace, name, err)
	}
	run := newRun(kube, job)
	if err := createOwned(ctx, kube, job, secrets, lease, t.newJournal()); err != nil {
		cleanupCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = run.Delete(cleanupCtx) // if that fails too, the Job ends at its deadline
		return nil, err
	}
	return &run, nil
}

// Manifests returns the objects of a task for another tool to create, without owner references and without a time limit.
// The name of the Job depends on the contents of the task, because a Job's pod template is immutable.
func (t Task) Manifests() (objects []any, err error) {
	parts, err := t.pack()
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	for _, part := range parts {
		sum.Write(part)
	}
	job, secrets, lease := t.objects(namePrefix(t.Release)+hex.EncodeToString(sum.Sum(nil))[:8], parts)
	job.Spec.ActiveDeadlineSeconds, job.Spec.TTLSecondsAfterFinished = nil, nil // a GitOps tool would create a deleted Job again
	for _, s := range secrets {
		objects = append(objects, s)
	}
	return append(objects, t.newJournal(), lease, job), nil
}

// createOwned creates the Secrets, the journal and the Lease of a Job, concurrently because the API server may be far away. Then it
// lets the Job start its pod.
func createOwned(ctx context.Context, kube kubernetes.Interface, job *batchv1.Job, secrets []*corev1.Secret, lease *coordinationv1.Lease, journal *corev1.Secret) error {
	owner := []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	all, creating := errgroup.WithContext(ctx)
	all.Go(func() error {
		lease.OwnerReferences = owner
		if _, err := kube.CoordinationV1().Leases(job.Namespace).Create(creating, lease, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create Lease %s/%s: %w", job.Namespace, lease.Name, err)
		}
		return nil
	})
	all.Go(func() error { return createJournal(creating, kube, journal, owner[0]) })
	for _, s := range secrets {
		all.Go(func() error {
			s.OwnerReferences = owner
			if _, err := kube.CoreV1().Secrets(job.Namespace).Create(creating, s, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create Secret %s/%s: %w", job.Namespace, s.Name, err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	const start = `{"spec":{"activeDeadlineSeconds":null,"parallelism":1}}`
	if _, err := kube.BatchV1().Jobs(job.Namespace).Patch(ctx, job.Name, types.MergePatchType, []byte(start), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch Job %s/%s: %w", job.Namespace, job.Name, err)
	}
	return nil
}

// namePrefix returns the start of the names of a run's objects, at most 50 characters.
func namePrefix(release string) string {
	name := names.Of(release)
	return "lockstep-" + strings.TrimRight(name[:min(len(name), names.MaxChanged)], "-.") + "-"
}

// List returns the runs in a namespace, or in all namespaces if it is "", the newest first.
func List(ctx context.Context, kube kubernetes.Interface, namespace string) ([]Run, error) {
	jobs, err := kube.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{LabelSelector: Selector})
	if err != nil {
		return nil, fmt.Errorf("list the Jobs of runs: %w", err)
	}
	var runs []Run
	for i := range jobs.Items {
		runs = append(runs, newRun(kube, &jobs.Items[i]))
	}
	slices.SortStableFunc(runs, Newer)
	return runs, nil
}

// Selector is the label selector of the Jobs of runs.
const Selector = labelManaged + "=lockstep," + LabelRelease

// Newer sorts runs, the newest first.
func Newer(a, b Run) int {
	return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// RunOf returns the run of a Job.
func RunOf(kube kubernetes.Interface, job *batchv1.Job) Run { return newRun(kube, job) }

func newRun(kube kubernetes.Interface, job *batchv1.Job) Run {
	r := Run{
		Namespace: job.Namespace, Name: job.Name, Release: cmp.Or(job.Annotations[annotationRelease], job.Labels[LabelRelease]), Command: job.Annotations[annotationCommand], By: job.Annotations[annotationBy],
		Started: job.CreationTimestamp.Time, State: "waiting", uid: job.UID, kube: kube,
	}
	switch {
	case job.Status.Active > 0 && job.Status.Ready != nil && *job.Status.Ready > 0:
		r.State = "running"
	case job.Spec.Suspend != nil && *job.Spec.Suspend:
		r.State = "suspended"
	}
	for _, c := range job.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			r.State, r.Over = "succeeded", c.LastTransitionTime.Time
		case c.Type == batchv1.JobFailed:
			r.State, r.Over = "failed", c.LastTransitionTime.Time
		}
	}
	return r
}

// Ended reports whether the run has ended.
func (r Run) Ended() bool { return r.State == "succeeded" || r.State == "failed" }

// DeleteUnlessStarted deletes the run unless its pod has started. deleted reports whether it did.
func (r Run) DeleteUnlessStarted(ctx context.Context) (deleted bool, err error) {
	pod, err := r.newestPod(ctx)
	if err != nil || pod != nil && pod.Status.Phase != corev1.PodPending {
		return false, err
	}
	err = r.Delete(ctx)
	return err == nil, err
}

// Delete deletes the Job of the run with the objects that it owns, even if its pod is running.
func (r Run) Delete(ctx context.Context) error {
	err := r.kube.BatchV1().Jobs(r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
