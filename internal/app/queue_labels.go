package app

// A node labels metrics with the names of the first queues that it sees. A label is never taken back, because a counter
// must not go on under another name. Namespaces belong to different users, so the limits also keep the queues of one
// namespace from using all labels.
const (
	maxQueueLabels = 200 // pairs of namespace and queue
	// maxNamespaceLabels is how many queues of one namespace have labels of their own. The others are added up.
	maxNamespaceLabels = 50
	// firstQueues of each namespace may use any label. Further queues use none of the last reservedLabels.
	firstQueues    = 4
	reservedLabels = 100

	// otherQueues is the name of queues, or of namespaces, that are added up. No queue can have it.
	otherQueues = "(other)"
)

// queueLabel is the labels of the metrics of a queue.
type queueLabel struct{ namespace, queue string }

// labelBudget decides which queues have labels of their own.
type labelBudget struct {
	used   map[queueLabel]bool
	queues map[string]int // labelled queues by namespace
}

func newLabelBudget() *labelBudget {
	return &labelBudget{used: map[queueLabel]bool{}, queues: map[string]int{}}
}

// label returns the labels of a queue: its own names if there are labels left, otherwise those of the sum over the
// other queues of its namespace, or over all other namespaces.
func (b *labelBudget) label(namespace, queue string) queueLabel {
	own := queueLabel{namespace, queue}
	n := b.queues[namespace]
	switch {
	case namespace == "" || queue == "": // it has been deleted
		return queueLabel{otherQueues, otherQueues}
	case b.used[own]:
		return own
	case n < firstQueues && b.take(own, maxQueueLabels),
		n < maxNamespaceLabels && b.take(own, maxQueueLabels-reservedLabels):
		b.queues[namespace]++
		return own
	}
	if rest := (queueLabel{namespace, otherQueues}); b.take(rest, maxQueueLabels) {
		return rest
	}
	return queueLabel{otherQueues, otherQueues}
}

// take uses a label unless there are limit or more.
func (b *labelBudget) take(l queueLabel, limit int) bool {
	if !b.used[l] && len(b.used) >= limit {
		return false
	}
	b.used[l] = true
	return true
}
