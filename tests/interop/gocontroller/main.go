// Command gocontroller does what Go controllers do, one job per run, and tells of it in JSON lines on standard output.
//
//	gocontroller -kubeconfig FILE -namespace NAME JOB [ARGUMENT...]
//
// A job that goes on by itself ends when standard input does.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// facts is one line of what a job tells.
type facts map[string]any

// world is what a job works with.
type world struct {
	config    *rest.Config
	typed     kubernetes.Interface
	dynamic   dynamic.Interface
	namespace string
	arguments []string
}

var jobs = map[string]func(context.Context, *world) error{
	"apply":      apply,
	"controller": controller,
	"discover":   discover,
	"dynamic":    dynamicObjects,
	"elect":      elect,
	"evict":      evict,
	"inform":     inform,
	"metadata":   metadataOnly,
	"page":       page,
	"record":     record,
	"typed":      typed,
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the kubeconfig of the server to talk to")
	namespace := flag.String("namespace", "default", "the namespace to work in")
	flag.Parse()
	if err := run(*kubeconfig, *namespace, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "gocontroller:", err)
		os.Exit(1)
	}
}

func run(kubeconfig, namespace string, arguments []string) error {
	if len(arguments) == 0 {
		return errors.New("which job?")
	}
	job, known := jobs[arguments[0]]
	if !known {
		return fmt.Errorf("no job %q", arguments[0])
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 1000, 1000
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return job(ctx, &world{config, typed, untyped, namespace, arguments[1:]})
}

var output sync.Mutex

// tell writes one line; informers and elections call it from goroutines of their own.
func tell(told facts) {
	line, err := json.Marshal(told)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(line))
}

// refusal is what a client sees of an error that the server answered with.
func refusal(err error) facts {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return facts{"error": fmt.Sprint(err)}
	}
	causes := []string{}
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			causes = append(causes, string(cause.Type))
		}
	}
	return facts{"code": status.Status().Code, "reason": status.Status().Reason, "causes": causes}
}
