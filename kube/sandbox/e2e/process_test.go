package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// processImage is an image whose containers run as processes: here of the test binary, in the role of roleEnv.
const processImage = "registry.example:5000/team/lockstep:v1"

// container is a container's program, with the arguments VALUES-FILE TRIES-FILE GREETING. Its first attempt exits
// with code 3.
func container(args []string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	self, err := client.AuthenticationV1().SelfSubjectReviews().Create(context.Background(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	values, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	token, err := os.ReadFile(os.Getenv("SANDBOX_ROOT") + "/var/run/secrets/kubernetes.io/serviceaccount/token")
	if err != nil {
		return err
	}
	fmt.Printf("user %s\nserver %v\n", self.Status.UserInfo.Username, config.Host == "https://"+os.Getenv("KUBERNETES_SERVICE_HOST")+":"+os.Getenv("KUBERNETES_SERVICE_PORT"))
	fmt.Fprintf(os.Stderr, "values %s\ntoken %d parts\n", values, len(strings.Split(string(token), ".")))
	fmt.Printf("greeting %s\npod %s label %s from %s all %s\n", args[2], os.Getenv("POD"), os.Getenv("LABEL"), os.Getenv("NAMESPACE"), os.Getenv("ALL_color"))
	if _, inherited := os.LookupEnv("LOCKSTEP_SANDBOX_TEST_SECRET"); inherited {
		return errors.New("the container has the environment of the sandbox")
	}
	if _, err := os.Stat(args[1]); err == nil {
		return nil
	}
	fmt.Print("first try")
	if err := os.WriteFile(args[1], nil, 0o600); err != nil {
		return err
	}
	os.Exit(3)
	return nil
}

// stubborn starts a child and exits with code 5 after SIGTERM. With an argument it ignores SIGTERM.
func stubborn(args []string) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	child := exec.Command("/bin/sleep", "1000")
	if err := child.Start(); err != nil {
		fmt.Println(err)
	}
	fmt.Println("processes", os.Getpid(), child.Process.Pid)
	for s := range c {
		fmt.Println("got", s)
		if len(args) == 0 {
			os.Exit(5)
		}
	}
}

// processPod returns the template of a pod whose container runs the test binary in a role.
func processPod(role string, args ...string) corev1.PodTemplateSpec {
	tpl := template(processImage)
	tpl.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	tpl.Spec.Containers[0].Args = args
	tpl.Spec.Containers[0].Env = []corev1.EnvVar{{Name: roleEnv, Value: role}}
	return tpl
}

// A job's container runs as a process, with everything that a kubelet would provide, and is restarted after it
// fails.
func TestProcess(t *testing.T) {
	client, _ := cluster(t)
	t.Parallel()
	ns := namespace(t, client)
	ctx := t.Context()
	_, err := client.CoreV1().Secrets(ns).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"},
		StringData: map[string]string{"values": "size=3", "word": "hello"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"color": "blue"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tpl := processPod("container", "/etc/run/values.yaml", "/data/tries", "$(WORD)-$(POD)-$(NOBODY)-$$(POD)")
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	c := &tpl.Spec.Containers[0]
	c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	c.EnvFrom = []corev1.EnvFromSource{{Prefix: "ALL_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}}}}
	c.Env = append(c.Env,
		corev1.EnvVar{Name: "WORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "word"}}},
		corev1.EnvVar{Name: "POD", ValueFrom: field("metadata.labels['job-name']")},
		corev1.EnvVar{Name: "LABEL", ValueFrom: field("metadata.labels['app']")},
		corev1.EnvVar{Name: "NAMESPACE", ValueFrom: field("metadata.namespace")})
	c.VolumeMounts = []corev1.VolumeMount{{Name: "values", MountPath: "/etc/run", ReadOnly: true}, {Name: "data", MountPath: "/data"}}
	tpl.Spec.Volumes = []corev1.Volume{
		{Name: "values", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Items: []corev1.KeyToPath{{Key: "values", Path: "values.yaml"}}}}},
		{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	_, err = client.BatchV1().Jobs(ns).Create(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "run"}, Spec: batchv1.JobSpec{Template: tpl}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job succeeds", func() bool {
		job, err := client.BatchV1().Jobs(ns).Get(ctx, "run", metav1.GetOptions{})
		return err == nil && job.Status.Succeeded == 1
	})
	pods, err := client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 {
		t.Fatal(err, len(pods.Items))
	}
	pod := pods.Items[0]
	st := pod.Status.ContainerStatuses[0]
	last := st.LastTerminationState.Terminated
	if st.RestartCount != 1 || st.State.Terminated == nil || st.State.Terminated.ExitCode != 0 || st.State.Terminated.Reason != "Completed" ||
		last == nil || last.ExitCode != 3 || last.Reason != "Error" || !strings.HasSuffix(last.Message, "\nfirst try\n") {
		t.Errorf("status: %+v", st)
	}
	want := "user system:serviceaccount:" + ns + ":default\nserver true\nvalues size=3\ntoken 3 parts\ngreeting hello-run-$(NOBODY)-$(POD)\npod run label x from " + ns + " all blue\n"
	log := func(o corev1.PodLogOptions) string {
		text, err := client.CoreV1().Pods(ns).GetLogs(pod.Name, &o).DoRaw(ctx)
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	if got := log(corev1.PodLogOptions{Follow: true}); got != want {
		t.Errorf("log:\n%s\nwant:\n%s", got, want)
	}
	if got := log(corev1.PodLogOptions{Previous: true}); got != want+"first try\n" {
		t.Errorf("log of the first try:\n%s", got)
	}
	one := int64(1)
	if got := log(corev1.PodLogOptions{Timestamps: true, TailLines: &one}); !regexp.MustCompile(`^2\d{3}-\S+\.\d{9}Z pod run `).MatchString(got) {
		t.Errorf("last line with its time: %q", got)
	}
	if got := log(corev1.PodLogOptions{SinceTime: &metav1.Time{Time: time.Now().Add(time.Hour)}}); got != "" {
		t.Errorf("log of the future: %q", got)
	}
}

// When a pod is deleted, its process gets SIGTERM, then SIGKILL, and the process's children are killed.
func TestProcessEndsWithPod(t *testing.T) {
	client, _ := cluster(t)
	t.Parallel()
	for name, tt := range map[string]struct {
		args  []string
		grace int64
		log   string
		code  int32
	}{
		"SIGTERM":  {nil, 60, "got terminated\n", 5},
		"SIGKILL":  {[]string{"ignore"}, 1, "got terminated\n", 137},
		"no grace": {[]string{"ignore"}, 0, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t, client)
			tpl := processPod("stubborn", tt.args...)
			tpl.Name, tpl.Finalizers = "p", []string{"example.com/watched"}
			if tt.grace == 0 {
				tpl.Finalizers = nil
			}
			eventually(t, "the pod is created", func() bool {
				_, err := client.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{ObjectMeta: tpl.ObjectMeta, Spec: tpl.Spec}, metav1.CreateOptions{})
				return err == nil
			})
			waitPod(t, client, ns, "it runs", func(c corev1.ContainerStatus) bool { return c.State.Running != nil && c.Ready })
			stream, err := client.CoreV1().Pods(ns).GetLogs("p", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			log := bufio.NewReader(stream)
			first, err := log.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if err := client.CoreV1().Pods(ns).Delete(t.Context(), "p", metav1.DeleteOptions{GracePeriodSeconds: &tt.grace}); err != nil {
				t.Fatal(err)
			}
			if rest, err := io.ReadAll(log); string(rest) != tt.log || err != nil {
				t.Errorf("log after the deletion: %q, %v", rest, err)
			}
			for _, id := range strings.Fields(first)[1:] {
				pid, err := strconv.Atoi(id)
				if err != nil {
					t.Fatal(err)
				}
				eventually(t, "process "+id+" is gone", func() bool { return !alive(pid) })
			}
			if tt.grace == 0 {
				return
			}
			waitPod(t, client, ns, "its exit code is reported", func(c corev1.ContainerStatus) bool {
				return c.State.Terminated != nil && c.State.Terminated.ExitCode == tt.code && c.State.Terminated.Reason == "Error"
			})
			if _, err := client.CoreV1().Pods(ns).Patch(t.Context(), "p", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// The image contains only lockstep, so another command cannot start.
func TestProcessStartError(t *testing.T) {
	client, _ := cluster(t)
	t.Parallel()
	ns := namespace(t, client)
	tpl := processPod("stubborn")
	tpl.Name, tpl.Spec.RestartPolicy, tpl.Spec.Containers[0].Command = "p", corev1.RestartPolicyNever, []string{"/bin/sh", "-c", "true"}
	eventually(t, "the pod is created", func() bool {
		_, err := client.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{ObjectMeta: tpl.ObjectMeta, Spec: tpl.Spec}, metav1.CreateOptions{})
		return err == nil
	})
	waitPod(t, client, ns, "it has failed", func(c corev1.ContainerStatus) bool {
		e := c.State.Terminated
		return e != nil && e.ExitCode == 128 && e.Reason == "StartError" && strings.Contains(e.Message, `"/bin/sh": executable file not found`)
	})
}
