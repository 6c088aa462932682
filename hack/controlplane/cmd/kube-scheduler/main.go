// Command kube-scheduler is Kubernetes' own kube-scheduler, built from its published module.
package main

import (
	"os"
	_ "time/tzdata" // CronJobs name time zones

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // request metrics on /metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // build_info on /metrics
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() { os.Exit(cli.Run(app.NewSchedulerCommand())) }
