// Package handler is what users of the library implement: a [Handler] maps a
// snapshot of a parent and its children to the parent's status and the
// children that shall exist.
//
//	sync := func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
//		server, err := handler.ParentAs[EchoServer](req)
//		if err != nil {
//			return nil, handler.Permanent(err)
//		}
//		return &handler.SyncResponse{
//			Status:   statusOf(req.Children),
//			Children: []any{podFor(server), serviceFor(server)},
//		}, nil
//	}
//	runner.Main(operator, handler.SyncFunc(sync))
//
// A handler says what shall be; the engine finds out what to create, update
// and delete. It is called again whenever the parent or a child changes, so it
// needs no memory of its own and is best written as a pure function of the
// request.
package handler
