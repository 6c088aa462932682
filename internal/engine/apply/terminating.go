package apply

import "slices"

// The namespaces in which nothing can be created, since they are being deleted.

// expectTerminating notes the namespaces in which the last pass could create
// nothing. The parent's own namespace still is terminating: it can't exist anew
// while the parent exists. Any other one is doubtful.
func (x *Executor) expectTerminating(namespaces []string) {
	for _, namespace := range namespaces {
		if namespace == x.Parent.Namespace() {
			x.foundTerminating(namespace)
			continue
		}
		if x.doubtful == nil {
			x.doubtful = map[string]chan struct{}{}
		}
		x.doubtful[namespace] = make(chan struct{}, 1)
	}
}

// foundTerminating notes a namespace in which nothing can be created.
func (x *Executor) foundTerminating(namespace string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !slices.Contains(x.mu.terminating, namespace) {
		x.mu.terminating = append(x.mu.terminating, namespace)
	}
}

// terminating returns the namespaces that were found to be terminating so far.
func (x *Executor) terminating() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.mu.terminating)
}
