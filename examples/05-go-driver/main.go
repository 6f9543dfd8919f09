// A lifecycle driver in Go. It knows nothing of Fairlead but the files in proto/.
//
// What it carries out is small: a node is "touched" when a file with the event's uid is in a folder. That is enough to
// show everything a driver has to do: serve, register, be idempotent by event uid, report progress, stop when asked to.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/touch-driver/lifecyclepb"
	"example.com/touch-driver/registrationpb"
)

const (
	name    = "example.com/touch"
	version = "v1alpha1.LifecycleDriver"
	steps   = 3
)

func main() {
	registry := flag.String("registry-dir", "/var/lib/fairlead/plugins_registry", "the agent's folder")
	plugins := flag.String("plugin-dir", "/var/lib/fairlead/plugins", "where to serve")
	work := flag.String("work-dir", "/var/lib/touch-driver", "where the touched files are")
	flag.Parse()

	for _, folder := range []string{*registry, *plugins, *work} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			log.Fatal(err)
		}
	}
	endpoint := filepath.Join(*plugins, "touch.example.com.sock")

	// The service comes first: the agent that finds the registration calls it at once.
	service := grpc.NewServer()
	lifecyclepb.RegisterLifecycleDriverServer(service, &driver{folder: *work})
	go serve(service, endpoint)

	registration := grpc.NewServer()
	registrationpb.RegisterRegistrationServer(registration, &registrar{endpoint: endpoint})
	go serve(registration, filepath.Join(*registry, "touch.example.com-reg.sock"))

	stop, release := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer release()
	<-stop.Done()
	// No new calls, then the end of those under way. Closing a listener removes its socket.
	registration.GracefulStop()
	service.GracefulStop()
}

func serve(server *grpc.Server, path string) {
	// A socket that was left behind by a process that was killed.
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Serve(listener); err != nil {
		log.Fatal(err)
	}
}

// registrar reports the driver to the agent, as a plugin does to a kubelet.
type registrar struct {
	registrationpb.UnimplementedRegistrationServer
	endpoint string
}

func (r *registrar) GetInfo(context.Context, *registrationpb.InfoRequest) (*registrationpb.PluginInfo, error) {
	return &registrationpb.PluginInfo{
		Type:              "LifecyclePlugin",
		Name:              name,
		Endpoint:          r.endpoint,
		SupportedVersions: []string{version},
	}, nil
}

func (r *registrar) NotifyRegistrationStatus(
	_ context.Context, status *registrationpb.RegistrationStatus,
) (*registrationpb.RegistrationStatusResponse, error) {
	log.Printf("registered: %v %s", status.PluginRegistered, status.Error)
	return &registrationpb.RegistrationStatusResponse{}, nil
}

// driver carries out the transition from Touching to Touched.
type driver struct {
	lifecyclepb.UnimplementedLifecycleDriverServer
	folder string
}

func (d *driver) GetTransitions(
	context.Context, *lifecyclepb.GetTransitionsRequest,
) (*lifecyclepb.GetTransitionsResponse, error) {
	touch := &lifecyclepb.Transition{Name: "touch", Start: "Touching", End: "Touched", Sla: "10m"}
	return &lifecyclepb.GetTransitionsResponse{Transitions: []*lifecyclepb.Transition{touch}}, nil
}

func (d *driver) StartLifecycleTransition(
	_ context.Context, request *lifecyclepb.StartLifecycleTransitionRequest,
) (*lifecyclepb.LifecycleTransitionResponse, error) {
	work := request.Work
	// An error other than UNAVAILABLE, CANCELLED and DEADLINE_EXCEEDED ends the event as Failed, with these words.
	if words, refused := work.Options["refuse"]; refused {
		return nil, status.Error(codes.FailedPrecondition, words)
	}
	return &lifecyclepb.LifecycleTransitionResponse{LifecycleCondition: work.Start, NodeName: work.NodeName}, nil
}

func (d *driver) EndLifecycleTransition(
	request *lifecyclepb.EndLifecycleTransitionRequest, stream lifecyclepb.LifecycleDriver_EndLifecycleTransitionServer,
) error {
	work := request.Work
	if err := d.touch(work.EventUid); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	for done := int64(1); done <= steps; done++ {
		progress := &lifecyclepb.Progress{Done: done, Total: steps, Unit: "fingers"}
		if err := stream.Send(&lifecyclepb.EndLifecycleTransitionResponse{
			Content: &lifecyclepb.EndLifecycleTransitionResponse_Progress{Progress: progress},
		}); err != nil {
			return err
		}
	}
	result := &lifecyclepb.LifecycleTransitionResponse{LifecycleCondition: work.End, NodeName: work.NodeName}
	return stream.Send(&lifecyclepb.EndLifecycleTransitionResponse{
		Content: &lifecyclepb.EndLifecycleTransitionResponse_Result{Result: result},
	})
}

// touch does the work, once for one event uid: a file that is there was made by a call before this one.
func (d *driver) touch(uid string) error {
	file, err := os.OpenFile(filepath.Join(d.folder, uid), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if os.IsExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := file.WriteString("touched\n"); err != nil {
		return err
	}
	return file.Close()
}
