// Calls a driver over its socket, as the first argument says, and prints one line for each step.
//
// All steps share one connection: an answer that breaks it fails the steps after it.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"example.com/touch-driver/lifecyclepb"
	"example.com/touch-driver/registrationpb"
)

func main() {
	connection, err := grpc.NewClient(
		"unix:"+os.Args[1],
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, PermitWithoutStream: true}),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	driver := lifecyclepb.NewLifecycleDriverClient(connection)
	background := context.Background()

	offered, err := driver.GetTransitions(background, &lifecyclepb.GetTransitionsRequest{NodeName: "node-1"})
	fmt.Println("offered", len(offered.GetTransitions()), said(err))

	started, err := start(background, driver, nil)
	fmt.Println("started", started.GetLifecycleCondition(), said(err))

	_, err = start(background, driver, map[string]string{"refuse": "für immer: 100 %\n"})
	fmt.Printf("refused %q\n", said(err))

	progress, result, err := end(background, driver, nil)
	fmt.Println("ended", progress, result, said(err))

	_, err = registrationpb.NewRegistrationClient(connection).GetInfo(background, &registrationpb.InfoRequest{})
	fmt.Println("unserved", status.Code(err))

	_, err = start(background, driver, map[string]string{"large": strings.Repeat("x", 400_000)})
	fmt.Println("large", said(err))
	_, err = start(background, driver, map[string]string{"large": strings.Repeat("x", 3_000_000)})
	fmt.Println("too large", status.Code(err))

	soon, release := context.WithTimeout(background, 200*time.Millisecond)
	_, err = start(soon, driver, map[string]string{"hang": "deadline"})
	release()
	fmt.Println("deadline", status.Code(err))

	cancelled, cancel := context.WithCancel(background)
	stream, err := driver.EndLifecycleTransition(cancelled, &lifecyclepb.EndLifecycleTransitionRequest{
		Work: &lifecyclepb.Work{EventUid: "cancelled", Options: map[string]string{"hang": "cancelled"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 { // all that the driver sends before it hangs: what has arrived is delivered even after a cancellation
		if _, err = stream.Recv(); err != nil {
			break
		}
	}
	cancel()
	fmt.Println("progress", said(err))
	_, err = stream.Recv()
	fmt.Println("cancelled", status.Code(err))

	var waiting sync.WaitGroup
	failures := make(chan error, 300)
	for range 300 { // three times as many as the server takes at once: the client waits for its turn
		waiting.Go(func() {
			if _, _, err := end(background, driver, nil); err != nil {
				failures <- err
			}
		})
	}
	waiting.Wait()
	fmt.Println("at once", len(failures), "failures")

	fmt.Println("hanging")
	_, err = start(background, driver, map[string]string{"hang": "stop"})
	fmt.Println("stopped", said(err))
}

func start(
	ctx context.Context, driver lifecyclepb.LifecycleDriverClient, options map[string]string,
) (*lifecyclepb.LifecycleTransitionResponse, error) {
	work := &lifecyclepb.Work{EventUid: "uid", NodeName: "node-1", Start: "Touching", End: "Touched", Options: options}
	return driver.StartLifecycleTransition(ctx, &lifecyclepb.StartLifecycleTransitionRequest{Work: work})
}

func end(
	ctx context.Context, driver lifecyclepb.LifecycleDriverClient, options map[string]string,
) (progress int, result string, err error) {
	work := &lifecyclepb.Work{EventUid: "uid", NodeName: "node-1", Start: "Touching", End: "Touched", Options: options}
	stream, err := driver.EndLifecycleTransition(ctx, &lifecyclepb.EndLifecycleTransitionRequest{Work: work})
	if err != nil {
		return 0, "", err
	}
	for {
		answer, err := stream.Recv()
		if err == io.EOF {
			return progress, result, nil
		}
		if err != nil {
			return progress, result, err
		}
		if answer.GetProgress() != nil {
			progress++
		} else {
			result = answer.GetResult().GetLifecycleCondition()
		}
	}
}

func said(err error) string {
	if err == nil {
		return "OK"
	}
	return status.Code(err).String() + ": " + status.Convert(err).Message()
}
