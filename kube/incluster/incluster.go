// Package incluster runs lockstep in the cluster: as a Job whose pod has the command line,
// the chart and the values from Secrets. It knows nothing of charts or runs: a Task is a
// command line with files, and what it prints are lines.
//
// Everything goes through the API server, and everything is built in. Lines come from the
// pod's log: it has all of them from the first, costs no writes, and every screen reads it by
// itself. Orders go the other way through the annotations of a Lease: it is small, Roles can
// name it, and no controller looks at it. A CustomResourceDefinition would need rights on the
// cluster, and a port would have to be opened. Who may read pods/log may watch; who may
// update the Lease may steer.
//
// The Secrets and the Lease belong to the Job and are deleted with it. The central types are
// Task, Run and Orders.
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
)

const (
	// LabelRelease has the release of a run's Job and pod.
	LabelRelease = "lockstep/release"
	// Container is the container of the pod.
	Container = "lockstep"

	labelManaged      = "app.kubernetes.io/managed-by"
	annotationCommand = "lockstep/command"
	annotationBy      = "lockstep/started-by"

	// Input is where the pod finds the packed task, Work where it may write.
	Input = "/lockstep-input"
	Work  = "/tmp"

	// startLimit is the time for a Job to get its Secrets. A Job whose creator died before
	// fails after it, and is removed like any other.
	startLimit = 2 * time.Minute
	// retries is how often a pod that was killed is replaced.
	retries = 100
)

// Task is a command line to run in the cluster.
type Task struct {
	Namespace string
	// Release and Command name the run.
	Release, Command string
	// Args are the arguments of lockstep. Paths in them are relative.
	Args []string
	// Files are the files of the working directory.
	Files map[string][]byte
	// Env are environment variables.
	Env map[string]string
	// Image has lockstep as its entrypoint.
	Image string
	// ServiceAccount is whose rights the run has.
	ServiceAccount string
	// KeepFor is how long the Job stays after its end.
	KeepFor time.Duration
	// By says who started it.
	By string
}

// Objects are the objects of a task: the Job, and the Secrets and the Lease that belong to
// it. Their owner references have no UID yet. name is the name of the Job.
func (t Task) Objects(name string) (job *batchv1.Job, secrets []*corev1.Secret, orders *coordinationv1.Lease, err error) {
	parts, err := pack(t.Args, t.Files)
	if err != nil {
		return nil, nil, nil, err
	}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: t.Namespace, Labels: map[string]string{labelManaged: "lockstep", LabelRelease: t.Release}}
	}
	for n, part := range parts {
		m := meta(name + "-" + strconv.Itoa(n))
		secrets = append(secrets, &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: m, Immutable: new(true), Data: map[string][]byte{partKey: part}})
	}
	orders = &coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}, ObjectMeta: meta(name)}
	m := meta(name)
	m.Annotations = map[string]string{annotationCommand: t.Command, annotationBy: t.By}
	job = &batchv1.Job{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: m, Spec: t.job(name, secrets)}
	return job, secrets, orders, nil
}

// job is the Job's spec. A pod that ends by itself ends the Job, whatever its exit code is:
// the run is over. One that is killed or evicted is replaced, and the run resumes (R50).
func (t Task) job(name string, secrets []*corev1.Secret) batchv1.JobSpec {
	return batchv1.JobSpec{
		Completions:             new(int32(1)),
		BackoffLimit:            new(int32(retries)),
		ActiveDeadlineSeconds:   new(int64(startLimit / time.Second)),
		TTLSecondsAfterFinished: new(int32(t.KeepFor / time.Second)),
		PodReplacementPolicy:    new(batchv1.Failed),
		PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
			{Action: batchv1.PodFailurePolicyActionIgnore, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
			}},
			{Action: batchv1.PodFailurePolicyActionFailJob, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				ContainerName: new(Container), Operator: batchv1.PodFailurePolicyOnExitCodesOpNotIn, Values: []int32{killed, terminated},
			}},
		}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{labelManaged: "lockstep", LabelRelease: t.Release}},
			Spec:       t.pod(name, secrets),
		},
	}
}

// Exit codes of processes that were killed.
const (
	killed     = 137
	terminated = 143
)

func (t Task) pod(name string, secrets []*corev1.Secret) corev1.PodSpec {
	input := &corev1.ProjectedVolumeSource{DefaultMode: new(int32(0o444))}
	for n, s := range secrets {
		input.Sources = append(input.Sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: s.Name}, Items: []corev1.KeyToPath{{Key: partKey, Path: partName(n)}},
		}})
	}
	env := []corev1.EnvVar{
		{Name: "HOME", Value: Work}, {Name: ordersVar, Value: t.Namespace + "/" + name},
		{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
	}
	for _, key := range slices.Sorted(maps.Keys(t.Env)) {
		env = append(env, corev1.EnvVar{Name: key, Value: t.Env[key]})
	}
	return corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: t.ServiceAccount, EnableServiceLinks: new(false),
		TerminationGracePeriodSeconds: new(int64(5)), NodeSelector: map[string]string{"kubernetes.io/os": "linux"},
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
	State                string // waiting, running, succeeded, failed or suspended
	kube                 kubernetes.Interface
}

// Start creates the objects of a task. After an error nothing stays.
func Start(ctx context.Context, kube kubernetes.Interface, t Task) (*Run, error) {
	name := jobName(t.Release)
	job, secrets, orders, err := t.Objects(name)
	if err != nil {
		return nil, err
	}
	job.Spec.Parallelism = new(int32(0)) // no pod before its Secrets: it would wait for the kubelet's next try to mount them
	job, err = kube.BatchV1().Jobs(t.Namespace).Create(ctx, job, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create Job %s/%s: %w", t.Namespace, name, err)
	}
	if err := complete(ctx, kube, job, secrets, orders); err != nil {
		gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = kube.BatchV1().Jobs(t.Namespace).Delete(gone, name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}) // else its deadline ends it
		return nil, err
	}
	run := runOf(kube, job)
	return &run, nil
}

// Manifests are the objects of a task for somebody else to create, all at once: without owner
// references, and without the time limit for creating them. The name of the Job, whose pod
// cannot be changed, follows from the contents.
func (t Task) Manifests() (objects []any, err error) {
	sum := sha256.New()
	parts, err := pack(t.Args, t.Files)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		sum.Write(part)
	}
	job, secrets, orders, err := t.Objects(namePrefix(t.Release) + hex.EncodeToString(sum.Sum(nil))[:8])
	if err != nil {
		return nil, err
	}
	job.Spec.ActiveDeadlineSeconds, job.Spec.TTLSecondsAfterFinished = nil, nil // a deleted Job would be created again
	for _, s := range secrets {
		objects = append(objects, s)
	}
	return append(objects, orders, job), nil
}

// complete creates all that belongs to a Job, at once, because the API server may be far away.
// Then it lets the Job start its pod.
func complete(ctx context.Context, kube kubernetes.Interface, job *batchv1.Job, secrets []*corev1.Secret, orders *coordinationv1.Lease) error {
	owner := []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	all, creating := errgroup.WithContext(ctx)
	all.Go(func() error {
		orders.OwnerReferences = owner
		if _, err := kube.CoordinationV1().Leases(job.Namespace).Create(creating, orders, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create Lease %s/%s: %w", job.Namespace, orders.Name, err)
		}
		return nil
	})
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

// jobName is a new name for the Job of a release.
func jobName(release string) string {
	return namePrefix(release) + utilrand.String(5)
}

func namePrefix(release string) string {
	return "lockstep-" + strings.TrimRight(release[:min(len(release), 40)], "-.") + "-"
}

// List returns the runs of a namespace, "" for all, the newest first.
func List(ctx context.Context, kube kubernetes.Interface, namespace string) ([]Run, error) {
	jobs, err := kube.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{LabelSelector: labelManaged + "=lockstep," + LabelRelease})
	if err != nil {
		return nil, fmt.Errorf("list the Jobs of runs: %w", err)
	}
	var runs []Run
	for i := range jobs.Items {
		runs = append(runs, runOf(kube, &jobs.Items[i]))
	}
	slices.SortStableFunc(runs, func(a, b Run) int {
		return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(a.Name, b.Name))
	})
	return runs, nil
}

func runOf(kube kubernetes.Interface, job *batchv1.Job) Run {
	r := Run{
		Namespace: job.Namespace, Name: job.Name, Release: job.Labels[LabelRelease], Command: job.Annotations[annotationCommand], By: job.Annotations[annotationBy],
		Started: job.CreationTimestamp.Time, State: "waiting", kube: kube,
	}
	switch {
	case job.Status.Active > 0 && job.Status.Ready != nil && *job.Status.Ready > 0:
		r.State = "running"
	case job.Spec.Suspend != nil && *job.Spec.Suspend:
		r.State = "suspended"
	}
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			r.State = map[batchv1.JobConditionType]string{batchv1.JobComplete: "succeeded", batchv1.JobFailed: "failed"}[c.Type]
		}
	}
	return r
}

// Over reports whether the run has ended.
func (r Run) Over() bool { return r.State == "succeeded" || r.State == "failed" }

// Delete removes the run with all that belongs to it. A running one is killed.
func (r Run) Delete(ctx context.Context) error {
	err := r.kube.BatchV1().Jobs(r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
