package cli

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const twoContainers = `containers: [{name: api, image: "example/app:1", resources: {limits: {memory: 64Mi}}}, {name: proxy, image: "example/proxy:1"}]`

// podCauses prevent containers from being created, running or becoming ready.
var podCauses = []cause{
	{"image", deployment("image", "", `containers: [{name: main, image: "example/no-such-image:1"}]`), "Deployment/image",
		`container main cannot start: image example/no-such-image:1 cannot be pulled: not found`, `Failed to pull image "example/no-such-image:1": .*not found`},
	{"image-name", deployment("image-name", "", `containers: [{name: main, image: "example/API:1"}]`), "Deployment/image-name",
		`container main cannot start: invalid image name example/API:1: repository name \(example/API\) must be lowercase`, `InspectFailed: .*must be lowercase`},
	{"pull-secret", deployment("pull-secret", `sandbox/fail: image, sandbox/message: "failed to pull and unpack image: failed to authorize: unexpected status from GET request: 401 Unauthorized"`,
		`imagePullSecrets: [{name: regcred}], `+oneContainer), "Deployment/pull-secret",
		`container main cannot start: image example/app:1 cannot be pulled: 401 Unauthorized; pull secret regcred could not be read`, `Unable to retrieve some image pull secrets \(regcred\)`},
	{"env-secret", deployment("env-secret", "", `containers: [{name: main, image: "x:1", envFrom: [{secretRef: {name: absent}}]}]`), "Deployment/env-secret",
		`container main cannot start: secret "absent" not found`, `secret "absent" not found`},
	{"env-key", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: there}\ndata: {a: b}\n---\n" +
		deployment("env-key", "", `containers: [{name: main, image: "x:1", env: [{name: A, valueFrom: {configMapKeyRef: {name: there, key: url}}}]}]`), "Deployment/env-key",
		`container main cannot start: couldn't find key url in ConfigMap \$NS/there`, `couldn't find key url`},
	{"as-root", deployment("as-root", "", `securityContext: {runAsNonRoot: true, runAsUser: 0}, `+oneContainer), "Deployment/as-root",
		`container main cannot start: container's runAsUser breaks non-root policy \(pod: "as-root-\S+", container: main\)`, `non-root policy`},
	{"create", deployment("create", "sandbox/fail: create", oneContainer), "Deployment/create",
		`container main cannot start: failed to reserve container name: name "app" is reserved`, `is reserved`},
	{"command", deployment("command", "sandbox/fail: run, sandbox/container: api", twoContainers), "Deployment/command",
		`container api cannot start: exec: "/bin/no-such-program": stat /bin/no-such-program: no such file or directory`, `no such file or directory`},
	{"crash", deployment("crash", crashing(""), oneContainer), "Deployment/crash", `container main exited with code 3 \(\d restarts?\): ` + orders, orders},
	{"memory", deployment("memory", "sandbox/fail: oom, sandbox/container: api, sandbox/run-duration: 10ms, sandbox/ready-delay: 1h", twoContainers), "Deployment/memory",
		`container api was killed for exceeding its memory limit of 64Mi \(OOMKilled, \d restarts?\)`, `Back-off restarting failed container api`},
	{"init", deployment("init", crashing(", sandbox/container: migrate"), `initContainers: [{name: migrate, image: "x:1"}], `+oneContainer), "Deployment/init",
		`init container migrate exited with code 3 \(\d restarts?\): ` + orders, orders},
	{"sidecar", deployment("sidecar", crashing(", sandbox/container: mesh"), `initContainers: [{name: mesh, image: "x:1", restartPolicy: Always}], `+oneContainer), "Deployment/sidecar",
		`sidecar mesh exited with code 3 \(\d restarts?\): ` + orders, orders},
	{"second", deployment("second", crashing(", sandbox/container: proxy"), twoContainers), "Deployment/second", `container proxy exited with code 3 \(\d restarts?\): ` + orders, orders},
	{"liveness", deployment("liveness", "sandbox/fail: liveness, sandbox/container: proxy, sandbox/run-duration: 10ms, sandbox/ready-delay: 1h, sandbox/message: 'Get \"http://10.1.2.3:8080/live\": context deadline exceeded'", twoContainers), "Deployment/liveness",
		`container proxy was killed because its liveness probe failed \(\d restarts?\): Get "http://10.1.2.3:8080/live": context deadline exceeded`, `(?i)liveness probe failed`},
	{"startup", deployment("startup", "sandbox/fail: startup, sandbox/run-duration: 10ms", oneContainer), "Deployment/startup",
		`container main was killed because its startup probe failed \(\d restarts?\): dial tcp 10.244.0.7:8080: connect: connection refused`, `(?i)startup probe failed`},
	{"readiness", deployment("readiness", "sandbox/fail: never-ready, sandbox/container: api, sandbox/message: 'HTTP probe failed with statuscode: 500'", twoContainers), "Deployment/readiness",
		`container api is running but not ready: Readiness probe failed: HTTP probe failed with statuscode: 500`, `Readiness probe failed`},
	{"gate", deployment("gate", "", `readinessGates: [{conditionType: example.com/registered}], `+oneContainer), "Deployment/gate",
		`running but not ready: corresponding condition of pod readiness gate "example.com/registered" does not exist`, `readiness gate "example.com/registered"`},
	{"volume", deployment("volume", "", `volumes: [{name: tls, secret: {secretName: absent}}], containers: [{name: main, image: "x:1", volumeMounts: [{name: tls, mountPath: /t}]}]`), "Deployment/volume",
		`volume tls cannot be mounted: secret "absent" not found`, `FailedMount: MountVolume.SetUp failed`},
	{"attach", deployment("attach", "sandbox/fail: attach", oneContainer), "Deployment/attach",
		`volume data cannot be attached: Volume is already exclusively attached to one node and can't be attached to another`, `FailedAttachVolume: Multi-Attach error`},
	{"evicted", job("evicted", "sandbox/fail: evicted, sandbox/start-delay: 1s", "backoffLimit: 0", "restartPolicy: Never, "+oneContainer), "Job/evicted",
		`the pod was evicted: The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 512Mi`, `The node was low on resource`},
	{"dead-node", deployment("dead-node", "", `nodeName: $NS, `+oneContainer), "Deployment/dead-node",
		`node \$NS is not ready: NodeStatusUnknown: Kubelet stopped posting node status`, `NodeStatusUnknown: Kubelet stopped posting node status`},
	{"cpu", deployment("cpu", "", `containers: [{name: main, image: "x:1", resources: {requests: {cpu: "1000"}}}]`), "Deployment/cpu",
		`cannot be scheduled: .*2.* lack CPU`, `FailedScheduling: .*Insufficient cpu`},
	{"selector", deployment("selector", "", `nodeSelector: {disk: fast}, `+oneContainer), "Deployment/selector",
		`cannot be scheduled: .*2.* didn't match Pod's node affinity/selector`, `FailedScheduling: `},
	{"taint", deployment("taint", "", `nodeSelector: {kubernetes.io/hostname: $NS}, `+oneContainer), "Deployment/taint",
		`cannot be scheduled: .*1.* untolerated taint.*`, `FailedScheduling: .*taint`},
	{"scheduler", deployment("scheduler", "", `schedulerName: special, `+oneContainer), "Deployment/scheduler",
		`.*pod scheduler-\S+: has no node: scheduler special has not assigned one`, `Available is False`},
	{"scheduling-gate", deployment("scheduling-gate", "", `schedulingGates: [{name: example.com/wait}], `+oneContainer), "Deployment/scheduling-gate",
		`cannot be scheduled: scheduling gate not removed: example.com/wait`, `scheduling gates`},
	{"settling", strings.Replace(deployment("settling", "", oneContainer), "spec:", "spec:\n  minReadySeconds: 300", 1), "Deployment/settling",
		`1 ready pod counts as available only after 300 s \(minReadySeconds\)`, `Available is False`},
	{"affinity", deployment("affinity", "", `affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: nowhere}}}]}}, `+oneContainer), "Deployment/affinity",
		`cannot be scheduled: .*2.* didn't match pod affinity rules`, `FailedScheduling: .*affinity rules`},
	{"port", `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: port}, spec: {replicas: 3, podManagementPolicy: Parallel, serviceName: port, selector: {matchLabels: {app: port}}, template: {metadata: {labels: {app: port}}, spec: {containers: [{name: main, image: "x:1", ports: [{containerPort: 80, hostPort: 18080}]}]}}}}`, "StatefulSet/port",
		`cannot be scheduled: .*2.* didn't have free ports for the requested pod ports`, `FailedScheduling: .*free ports`},
	{"backoff", job("backoff", crashing(""), "backoffLimit: 0", "restartPolicy: Never, "+oneContainer), "Job/backoff", `container main exited with code 3: ` + orders, orders},
	{"on-failure", job("on-failure", crashing(""), "backoffLimit: 3", "restartPolicy: OnFailure, "+oneContainer), "Job/on-failure", // the pod may be removed before its last failure is read
		`container main exited with code 3(?: \(\d restarts?\))?: ` + orders, orders},
	{"deadline", job("deadline", "sandbox/run-duration: 1h", "activeDeadlineSeconds: 2", "restartPolicy: Never, "+oneContainer), "Job/deadline",
		`DeadlineExceeded: Job was active longer than specified deadline`, `Job was active longer than specified deadline`},
	{"asleep", job("asleep", "", "suspend: true", "restartPolicy: Never, "+oneContainer), "Job/asleep", `suspended \(spec.suspend: true\)`, `Suspended`},
	{"account", deployment("account", "", `serviceAccountName: nobody, `+oneContainer), "Deployment/account",
		`no pods can be created: error looking up service account \$NS/nobody: serviceaccount "nobody" not found`, `serviceaccount "nobody" not found`},
	{"priority", deployment("priority", "", `priorityClassName: none-such, `+oneContainer), "Deployment/priority",
		`no pods can be created: no PriorityClass with name none-such was found`, `no PriorityClass with name none-such`},
	{"quota", `{apiVersion: v1, kind: ResourceQuota, metadata: {name: none}, spec: {hard: {pods: "0"}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [$NS]}]}}}` + "\n---\n" +
		deployment("quota", "", `priorityClassName: $NS, `+oneContainer), "Deployment/quota",
		`no pods can be created: exceeded quota none: requested pods=1 \(0 left\)`, `exceeded quota: none`},
	{"claim", deployment("claim", "", `volumes: [{name: d, persistentVolumeClaim: {claimName: nowhere}}], `+oneContainer), "Deployment/claim",
		`pod claim-\S+ cannot be scheduled: claim nowhere does not exist`, `persistentvolumeclaim "nowhere" not found`},
	{"set-claim", `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: set-claim}, spec: {serviceName: db, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, spec: {` + oneContainer + `}},
		volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: none-such, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}}`, "StatefulSet/set-claim",
		`pod set-claim-0 cannot be scheduled: claim data-set-claim-0 has no volume: StorageClass none-such does not exist, and no volume of that class fits 1Gi, ReadWriteOnce`, `claim data-set-claim-0.*none-such`},
	{"late-claim", deployment("late-claim", "", `volumes: [{name: d, persistentVolumeClaim: {claimName: late}}], `+oneContainer), "Deployment/late-claim",
		`pod late-claim-\S+ cannot be scheduled: claim late has no volume: provisioner csi.example.com of StorageClass \$NS has not created one, and no CSIDriver with that name is installed`, `claim late is pending`},
}

// TestCausesOfPods: for each way in which a pod can fail, lockstep reports the object, the container
// and the cause before the timeout, at the failure and in the summary.
func TestCausesOfPods(t *testing.T) {
	limitedParallel(t)
	const ns = "causes-of-pods"
	c := inCluster(t)
	c.namespace(ns)
	c.create(ns, `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: $NS}, value: 1}`,
		`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: $NS}, provisioner: csi.example.com, volumeBindingMode: WaitForFirstConsumer}`,
		`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: late}, spec: {storageClassName: $NS, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`)
	c.deadNode(ns)
	s := installCauses(t, ns, podCauses, "--readiness-timeout", "1m", "--timeout", "5m", "--wait-for-jobs")
	s.check()
	s.checkTimes()
}

// deadNode adds a node without a kubelet.
func (c *clusterClient) deadNode(name string) {
	c.t.Helper()
	nodes := c.kube.CoreV1().Nodes()
	_, err := nodes.Create(c.t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "example.com/gone", Effect: corev1.TaintEffectNoSchedule}}},
	}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	gone := `{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown","message":"Kubelet stopped posting node status."}]}}`
	if _, err := nodes.Patch(c.t.Context(), name, types.StrategicMergePatchType, []byte(gone), metav1.PatchOptions{}, "status"); err != nil {
		c.t.Fatal(err)
	}
}
