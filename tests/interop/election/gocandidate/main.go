// Command gocandidate is a candidate on client-go that shares a Lease with candidates in other languages.
//
//	gocandidate -kubeconfig FILE -namespace NAME -lease NAME -identity NAME [-lease-duration 15s ...]
//
// While it leads it writes to the ConfigMap `written`, again and again. SIGTERM ends its writing first, then releases
// the Lease. A lost lease ends the process with code 1, as it ends every component of Kubernetes.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

type options struct {
	kubeconfig, namespace, lease, identity string
	duration, deadline, retry, interval    time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the server")
	flag.StringVar(&o.namespace, "namespace", "default", "where the Lease and the ConfigMap are")
	flag.StringVar(&o.lease, "lease", "", "the Lease")
	flag.StringVar(&o.identity, "identity", "", "the name to hold it under")
	flag.DurationVar(&o.duration, "lease-duration", 15*time.Second, "")
	flag.DurationVar(&o.deadline, "renew-deadline", 10*time.Second, "")
	flag.DurationVar(&o.retry, "retry-period", 2*time.Second, "")
	flag.DurationVar(&o.interval, "write-interval", 50*time.Millisecond, "how often to write while leading")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "gocandidate:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 1000, 1000
	election := *config
	election.Timeout = max(time.Second, o.deadline/2)
	writes, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	leases, err := kubernetes.NewForConfig(&election)
	if err != nil {
		return err
	}
	stopWriting := make(chan struct{})
	stoppedWriting := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	leading := make(chan struct{})
	go func() {
		<-asked
		close(stopWriting)
		select {
		case <-leading:
			<-stoppedWriting
		default:
		}
		cancel()
	}()
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: o.namespace, Name: o.lease},
			Client:     leases.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: o.identity},
		},
		LeaseDuration:   o.duration,
		RenewDeadline:   o.deadline,
		RetryPeriod:     o.retry,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				close(leading)
				tell("leading", "")
				write(ctx, writes, o, stopWriting)
				close(stoppedWriting)
			},
			OnStoppedLeading: func() {
				if ctx.Err() == nil {
					tell("lost", "")
					os.Exit(1)
				}
			},
		},
	})
	tell("stopped", "")
	return nil
}

func write(ctx context.Context, client kubernetes.Interface, o options, stop <-chan struct{}) {
	for count := 0; ; count++ {
		select {
		case <-stop:
			return
		case <-ctx.Done():
			return
		case <-time.After(o.interval):
		}
		patch := fmt.Sprintf(`{"data":{"by":%q,"count":"%d"}}`, o.identity, count)
		_, err := client.CoreV1().ConfigMaps(o.namespace).Patch(
			ctx, "written", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			tell("refused", err.Error())
		}
	}
}

func tell(event, why string) {
	line, _ := json.Marshal(map[string]string{"event": event, "why": why})
	fmt.Println(string(line))
}
