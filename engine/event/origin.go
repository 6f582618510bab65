package event

// Origin is who or what paused a run, or ended it.
type Origin struct {
	Command CommandName `json:"command"`
	// Via is what sent the command, if it was not a key of the screen: "ctrl-c", "SIGTERM", "lockstep ctl". By is Event.By.
	Via string `json:"via,omitempty"`
	By  string `json:"by,omitempty"`
	// Why is the reason, if nobody asked for it: "the stack is paused".
	Why string `json:"why,omitempty"`
	// Cancelled is the number of requests that were cancelled.
	Cancelled int `json:"cancelled,omitempty"`
}

// Origin returns the origin of what the command does to the run.
func (c Command) Origin() Origin { return Origin{Command: c.Name, Via: c.Via, By: c.By, Why: c.Reason} }
