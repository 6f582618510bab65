// Package stepjob runs a container image in the cluster as a part of a run (S11a): as a Job whose output is passed on in lines
// while it runs. A Job that a killed run left is taken over. The central type is Job. Package kube/stack imports it.
package stepjob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lockstep/engine/parallel"
	"lockstep/kube/helmfile"
	"lockstep/kube/names"
	"lockstep/kube/program"
)

// Job is a step that runs in the cluster.
type Job struct {
	// Step identifies the step. The name of the Job follows from it.
	Step, Namespace string
	Labels          map[string]string
	Image           helmfile.Image
	// Command is that of the image if it is empty.
	Command string
	Args    []string
	// Env is added to the variables of the image, which win. Digest does not stand for it.
	Env map[string]string
	// Digest stands for what the step does and for which releases. A Job with the same one that still runs, or has succeeded, is
	// taken over.
	Digest string
	// Rerun runs it again even if it has succeeded.
	Rerun bool
	// RunID identifies the run, and Author describes it to others that find the Job. Lock is the release, with its cluster, whose lock the run
	// holds while the step runs, "" for none: the run of another Job with the same one has ended or was killed.
	RunID, Author, Lock string
}

const (
	annotationStep   = "lockstep/step"
	annotationDigest = "lockstep/step-digest"
	annotationRun    = "lockstep/step-run"
	annotationAuthor = "lockstep/step-author"
	annotationLock   = "lockstep/step-lock"
	container        = "step"

	// grace is the time between asking the container to end and killing it, in seconds.
	grace = 5
	// pollInterval is the time between two looks at the Job and its pod.
	pollInterval = 500 * time.Millisecond
	// noticeTime is the time that another run has to notice the end of its Job.
	noticeTime = 4 * pollInterval
	// endTimeout limits how long the end of a cancelled Job is waited for.
	endTimeout = 20 * time.Second
)

// Name returns the name of the Job.
func (j Job) Name() string { return names.Of("lockstep-step/" + j.Step) }

// Ref returns the Job as kubectl names it, with its namespace: "job/NAME -n NAMESPACE".
func (j Job) Ref() string { return "job/" + j.Name() + " -n " + j.Namespace }

// Handlers are called while a Job runs.
type Handlers struct {
	Output  func(lines []string)
	TakeOn  func()              // the Job is one of an earlier run
	Replace func(author string) // the Job of a run that was killed has not ended, and is deleted
	Waiting func()              // the container has not started yet
	Busy    func(author string) // the Job of another run, which may be alive, has not ended yet
}

// Run runs the Job and passes the lines of its output on, those of a Job that it takes over from the start. When ctx is done, it
// deletes the Job, unless that may be another run's, and returns the cause of ctx. A Job that has ended stays, whatever its result is; see Tidy.
func (j Job) Run(ctx context.Context, kube kubernetes.Interface, on Handlers) error {
	job, err := j.start(ctx, kube, on)
	if err == nil {
		out := program.NewOutput(on.Output)
		err = j.follow(ctx, kube, job, out, on.Waiting)
		out.Close()
	}
	if ctx.Err() != nil && err != nil {
		j.end(context.WithoutCancel(ctx), kube)
		return context.Cause(ctx)
	}
	return err
}

// start creates the Job, or finds the one to take over. A Job of another run that cannot be taken over is deleted once it has ended,
// or its run: until then it may do the work of a run that is alive.
func (j Job) start(ctx context.Context, kube kubernetes.Interface, on Handlers) (*batchv1.Job, error) {
	jobs, busy := kube.BatchV1().Jobs(j.Namespace), time.Time{} // when it was last seen running
	for {
		found, err := jobs.Get(ctx, j.Name(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			found, err = jobs.Create(ctx, j.object(), metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("create Job %s/%s: %w", j.Namespace, j.Name(), err)
			}
			return found, nil
		case err != nil:
			return nil, fmt.Errorf("read Job %s/%s: %w", j.Namespace, j.Name(), err)
		case found.Annotations[annotationStep] != j.Step:
			return nil, fmt.Errorf("Job %s/%s exists, and is not one of this hook: delete or rename it", j.Namespace, j.Name())
		}
		if j.takes(found) {
			on.TakeOn()
			return found, nil
		}
		author := cmp.Or(found.Annotations[annotationAuthor], "an unknown run")
		if ended, _ := result(found); !ended && found.DeletionTimestamp == nil && !j.owns(found) {
			busy = time.Now()
			on.Busy(author)
		} else if time.Since(busy) > noticeTime {
			if !ended && found.DeletionTimestamp == nil {
				on.Replace(author)
			}
			if err := j.delete(ctx, kube, found); err != nil {
				return nil, err
			}
		}
		if err := parallel.Sleep(ctx, pollInterval); err != nil {
			return nil, err
		}
	}
}

// owns reports whether no other run that is alive runs an existing Job of the step.
func (j Job) owns(found *batchv1.Job) bool {
	of := found.Annotations
	return of[annotationRun] == j.RunID || j.Lock != "" && of[annotationLock] == j.Lock
}

// takes reports whether an existing Job is the one that the step would create, and has not failed.
func (j Job) takes(found *batchv1.Job) bool {
	ended, failed := result(found)
	return found.DeletionTimestamp == nil && j.Digest != "" && found.Annotations[annotationDigest] == j.Digest && failed == nil && !(ended && j.Rerun)
}

// object returns the Job to create. Its pod is never replaced: a step runs once.
func (j Job) object() *batchv1.Job {
	c := corev1.Container{
		Name: container, Image: j.Image.Name, Args: j.Args,
		SecurityContext:          &corev1.SecurityContext{AllowPrivilegeEscalation: new(false)},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	if j.Command != "" {
		c.Command = []string{j.Command}
	}
	env := map[string]string{}
	maps.Copy(env, j.Env)
	maps.Copy(env, j.Image.Env)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: env[name]})
	}
	for _, name := range j.Image.Secrets {
		c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}})
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: j.Name(), Namespace: j.Namespace, Labels: j.Labels, Annotations: map[string]string{
			annotationStep: j.Step, annotationDigest: j.Digest, annotationRun: j.RunID, annotationAuthor: j.Author, annotationLock: j.Lock,
		}},
		Spec: batchv1.JobSpec{
			BackoffLimit: new(int32(0)), PodReplacementPolicy: new(batchv1.Failed),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: j.Labels, Annotations: j.Image.Annotations},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, EnableServiceLinks: new(false), TerminationGracePeriodSeconds: new(int64(grace)),
					ServiceAccountName: j.Image.ServiceAccount, AutomountServiceAccountToken: new(j.Image.ServiceAccount != ""),
					SecurityContext: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
					Containers:      []corev1.Container{c},
				},
			},
		},
	}
}

// result reports whether a Job has ended, and why it has failed.
func result(job *batchv1.Job) (ended bool, failed error) {
	for _, c := range job.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			return true, nil
		case c.Type == batchv1.JobFailed:
			return true, errors.New(c.Message)
		}
	}
	return false, nil
}

// delete deletes a Job with its pods.
func (j Job) delete(ctx context.Context, kube kubernetes.Interface, job *batchv1.Job) error {
	err := kube.BatchV1().Jobs(j.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
		PropagationPolicy: new(metav1.DeletePropagationForeground), Preconditions: &metav1.Preconditions{UID: &job.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete Job %s/%s: %w", j.Namespace, job.Name, err)
	}
	return nil
}

// is reports whether an existing Job is that of this step, with the same command for the same releases.
func (j Job) is(found *batchv1.Job) bool {
	return found.Annotations[annotationStep] == j.Step && found.Annotations[annotationDigest] == j.Digest
}

// end deletes the Job, unless it may be another run's, and waits until it and its pod are gone, at most endTimeout.
func (j Job) end(ctx context.Context, kube kubernetes.Interface) {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	for {
		job, err := kube.BatchV1().Jobs(j.Namespace).Get(ctx, j.Name(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || ctx.Err() != nil || err == nil && !(j.is(job) && j.owns(job)) {
			return
		}
		if err == nil && job.DeletionTimestamp == nil {
			_ = j.delete(ctx, kube, job) // the next look tries again
		}
		_ = parallel.Sleep(ctx, pollInterval)
	}
}

// Tidy deletes the Job if it has succeeded. A failed one stays until the step runs again, for its logs.
func (j Job) Tidy(ctx context.Context, kube kubernetes.Interface) error {
	job, err := kube.BatchV1().Jobs(j.Namespace).Get(ctx, j.Name(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if ended, failed := result(job); !ended || failed != nil || !j.is(job) {
		return nil
	}
	return j.delete(ctx, kube, job)
}
