package trace

// The names of spans. Spans of runs, groups and objects have the names of these: "install shop", "shop:db", "Deployment/api".
const (
	spanPrepare     = "prepare"
	spanWaiting     = "waiting"
	spanApplying    = "applying"
	spanDeleting    = "deleting"
	spanReady       = "becoming ready"
	spanRollback    = "rollback"
	spanPaused      = "paused"
	spanHeld        = "held"
	spanApproval    = "waiting for approval"
	spanUnreachable = "API server unreachable"
)

// The names of events in the span of a run.
const (
	eventWarning = "warning"
	eventCommand = "command"
)

// The keys of attributes.
const (
	keyNamespace = "k8s.namespace.name"
	keyErrorType = "error.type"

	keyOperation = "lockstep.operation"
	keyRelease   = "lockstep.release"
	keyContext   = "lockstep.context"
	keyChart     = "lockstep.chart"
	keyRevision  = "lockstep.revision"
	keyExit      = "lockstep.exit"
	keyOutcome   = "lockstep.outcome"

	keyPhase   = "lockstep.phase"
	keyGroup   = "lockstep.group"
	keyLayer   = "lockstep.layer"
	keyStatus  = "lockstep.status"
	keyAttempt = "lockstep.attempt"
	keySkip    = "lockstep.skip"

	keyObject   = "lockstep.object"
	keyAPIGroup = "lockstep.object.group"
	keyKind     = "lockstep.object.kind"
	keyName     = "lockstep.object.name"
	keyChange   = "lockstep.change"
	keyReadyBy  = "lockstep.ready_by"

	keyCause         = "lockstep.failure.cause"
	keyEvidence      = "lockstep.failure.evidence"
	keyTimeout       = "lockstep.failure.timeout"
	keyPod           = "lockstep.failure.pod"
	keyContainer     = "lockstep.failure.container"
	keyContainerExit = "lockstep.failure.exit"

	keyMessage = "lockstep.message"
	keyRule    = "lockstep.rule"
	keyCommand = "lockstep.command"
	keyBy      = "lockstep.by"
)

// The names of metrics.
const (
	metricRun            = "lockstep.run.duration"
	metricGroup          = "lockstep.group.duration"
	metricGate           = "lockstep.gate.latency"
	metricRequests       = "lockstep.requests"
	metricRequestRetries = "lockstep.request.retries"
	metricGroupRetries   = "lockstep.group.retries"
	metricOutage         = "lockstep.outage.duration"
)

// The values of error.type.
const (
	errorFailed  = "failed"
	errorTimeout = "timeout"
	errorAborted = "aborted"
)
