// A cloud in Go. It knows nothing of Fairlead but proto/fairlead/cloud/v1alpha1.
//
// The cloud is a small one: machines, routes and load balancers are what a file says. That is enough to show what a
// server has to do: prove who it is and ask the manager to, answer about many machines at once, distinguish "gone" from "not
// found this time", and let every call be repeated.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"example.com/nimbus-cloud/cloudpb"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8443", "where to serve")
	path := flag.String("state", "/var/lib/nimbus/cloud.json", "the cloud")
	certificate := flag.String("cert", "server.crt", "what this server shows")
	key := flag.String("key", "server.key", "its key")
	authority := flag.String("client-ca", "ca.crt", "who signed the certificates of managers")
	flag.Parse()

	secure, err := mutual(*certificate, *key, *authority)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(secure))
	cloudpb.RegisterCloudProviderServer(server, &provider{store: store{path: *path}})

	stop, release := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer release()
	go func() {
		<-stop.Done()
		server.GracefulStop()
	}()
	fmt.Println(listener.Addr())
	if err := server.Serve(listener); err != nil {
		log.Fatal(err)
	}
}

// mutual makes both sides prove who they are: the provider's answers decide which nodes are deleted.
func mutual(certificate, key, authority string) (credentials.TransportCredentials, error) {
	own, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	trusted, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(trusted) {
		return nil, fmt.Errorf("%s has no certificate", authority)
	}
	return credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{own},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool,
		MinVersion:   tls.VersionTLS12,
	}), nil
}
