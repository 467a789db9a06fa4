internal import CoveCore
internal import CoveEngine

/// What `io.cove.Item` does.
enum ItemService {
    /// The interface for an engine.
    static func interface(engine: Engine) -> VarlinkInterface {
        typealias Item = ItemInterface
        return VarlinkInterface(
            name: Item.name,
            definition: Item.definition,
            methods: [
                "Status": VarlinkMethod { (request: Item.StatusRequest, _) async throws(VarlinkError) in
                    status(engine, request.paths)
                },
                "Info": VarlinkMethod { (request: Item.Request, _) async throws(VarlinkError) in
                    let path = try request.itemPath()
                    return Item.InfoReply(item: try failing { () throws(Errno) in try engine.item(at: path) })
                },
                "List": VarlinkMethod { (request: Item.Request, invocation) async throws(VarlinkError) in
                    let path = try request.itemPath()
                    let items = try await failing { () async throws(Errno) in try await engine.items(in: path) }
                    let last = try await AccountService.sendBatches(
                        items,
                        invocation,
                        texts: { [$0.path, $0.pathBase64 ?? "", $0.name, $0.error ?? ""] }
                    ) {
                        Item.ListReply(items: $0)
                    }
                    return Item.ListReply(items: last)
                },
                "Download": VarlinkMethod { (request: Item.Request, invocation) async throws(VarlinkError) in
                    let path = try request.itemPath()
                    try await failing { () async throws(Errno) in
                        guard request.wait == true else { return try await engine.download(path) }
                        try await download(engine, path, invocation)
                    }
                    return Item.DownloadReply()
                },
                "Evict": VarlinkMethod { (request: Item.Request, _) async throws(VarlinkError) in
                    Item.EvictReply(freedBytes: try await evict(engine, try request.itemPath()))
                },
                "Pin": VarlinkMethod { (request: Item.Request, _) async throws(VarlinkError) in
                    let path = try request.itemPath()
                    return try await change { () throws(Errno) in try engine.setPinned(path, true) }
                },
                "Unpin": VarlinkMethod { (request: Item.Request, _) async throws(VarlinkError) in
                    let path = try request.itemPath()
                    return try await change { () throws(Errno) in try engine.setPinned(path, false) }
                },
                "Exclude": VarlinkMethod { (request: Item.Request, _) async throws(VarlinkError) in
                    try await setExcluded(engine, try request.itemPath(), true)
                },
                "Include": VarlinkMethod { (request: Item.Request, _) async throws(VarlinkError) in
                    try await setExcluded(engine, try request.itemPath(), false)
                },
                "SetPolicy": VarlinkMethod { (request: Item.Request, _) async throws(VarlinkError) in
                    let path = try request.itemPath()
                    guard let policy = request.policy.flatMap({ ContentPolicy(rawValue: $0) }) else {
                        throw .invalidParameter("policy")
                    }
                    return try await change { () throws(Errno) in try engine.setPolicy(path, policy) }
                },
                "Actions": VarlinkMethod { (request: Item.Request, _) async throws(VarlinkError) in
                    let path = try request.itemPath()
                    return Item.ActionsReply(
                        actions: try failing { () throws(Errno) in try engine.actions(for: path) }
                    )
                },
                "Perform": VarlinkMethod { (request: Item.PerformRequest, _) async throws(VarlinkError) in
                    let paths = request.paths.map { path in
                        RemotePath(path.utf8.split(separator: 0x2F).map { FileName(unchecked: Array($0)) })
                    }
                    do throws(ActionError) {
                        return Item.PerformReply(message: try await engine.perform(request.action, on: paths))
                    } catch {
                        throw error.failure()
                    }
                },
                "Adopt": VarlinkMethod { (request: Item.AdoptRequest, _) async throws(VarlinkError) in
                    guard let path = try request.path.remotePath() else { throw .invalidParameter("path") }
                    guard let file = try request.filePath() else { throw .invalidParameter("file") }
                    let outcome = try await failing { () async throws(Errno) in
                        try await engine.adopt(
                            path,
                            from: file,
                            trustingDates: request.trustDates == true,
                            isTrial: request.isTrial == true
                        )
                    }
                    return Item.AdoptReply(outcome: outcome.rawValue)
                },
                "Publish": VarlinkMethod { (request: Item.Request, _) async throws(VarlinkError) in
                    let path = try request.itemPath()
                    let life = request.seconds.map { TimeSpan.seconds($0) } ?? Engine.publishedLife
                    do throws(ActionError) {
                        let (made, version) = try await engine.publish(path, for: life)
                        return Item.PublishReply(
                            url: made.url,
                            expires: made.expires.secondsSinceEpoch,
                            version: "\(version)"
                        )
                    } catch {
                        throw error.failure()
                    }
                },
            ].merging(versionMethods(engine)) { own, _ in own }
                .merging(thumbnailMethods(engine)) { own, _ in own }
        )
    }

    private static func setExcluded(
        _ engine: Engine,
        _ path: RemotePath,
        _ isExcluded: Bool
    ) async throws(VarlinkError) -> VarlinkNothing {
        do throws(Errno) {
            try await engine.setExcluded(path, isExcluded)
            return VarlinkNothing()
        } catch {
            let words =
                switch error {
                case .busy: "a container can't be excluded; exclude what is in it"
                case .invalidArgument: "the mount point can't be excluded; exclude what is in it"
                case .wouldBlock: "its bytes don't stay on this disk, and would be the only ones; pin it, and try again"
                case .noData: "its folder or its name keeps it here; include that folder, or rename it"
                case .hostUnreachable where isExcluded:
                    "its bytes are not all here, and the source can't be reached; try again when it can"
                default: error.explanation
                }
            throw .failed(words, errno: error, interface: ItemInterface.name)
        }
    }

    private static func status(_ engine: Engine, _ paths: [String]) -> ItemInterface.StatusReply {
        var reply = ItemInterface.StatusReply(items: [], failures: [:])
        for path in paths {
            let names = path.utf8.split(separator: 0x2F).map { FileName(unchecked: Array($0)) }
            do throws(Errno) {
                reply.items.append(try engine.item(at: RemotePath(names)))
            } catch {
                reply.failures[path] = error.explanation
            }
        }
        return reply
    }

    /// Downloads and waits, reporting how far it is: of a file its bytes here, of a directory what the engine tells.
    private static func download(
        _ engine: Engine,
        _ path: RemotePath,
        _ invocation: VarlinkInvocation
    ) async throws(Errno) {
        guard try engine.item(at: path).kind == "file" else {
            return try await engine.waitForDownload(path) { transfer in
                invocation.report(ItemInterface.DownloadReply(progress: transfer))
            }
        }
        let watch = Task {
            while !Task.isCancelled, let item = try? engine.item(at: path) {
                let transfer = TransferStatus(
                    path: item.path,
                    direction: "download",
                    doneBytes: item.localBytes,
                    totalBytes: item.size,
                    bytesPerSecond: 0
                )
                invocation.report(ItemInterface.DownloadReply(progress: transfer))
                try? await Task.sleep(for: .milliseconds(200))
            }
        }
        var failure: Errno?
        do throws(Errno) { try await engine.waitForDownload(path) { _ in } } catch { failure = error }
        // A report behind the last reply would be taken for the next call's.
        watch.cancel()
        await watch.value
        if let failure { throw failure }
    }

    private static func evict(_ engine: Engine, _ path: RemotePath) async throws(VarlinkError) -> Int64 {
        let result = await OffPool.run {
            Result<Int64, EvictionError> { () throws(EvictionError) in try engine.evict(path) }
        }
        do throws(EvictionError) {
            return try result.get()
        } catch {
            throw error.failure(requested: path)
        }
    }

    private static func change(
        _ body: @escaping @Sendable () throws(Errno) -> Void
    ) async throws(VarlinkError) -> VarlinkNothing {
        let result = await OffPool.run { Result<Void, Errno> { () throws(Errno) in try body() } }
        try failing { () throws(Errno) in try result.get() }
        return VarlinkNothing()
    }

    /// Carries something out whose errors say more of it than of other things.
    static func explaining<Value: Sendable>(
        by words: (Errno) -> String?,
        _ body: () async throws(Errno) -> Value
    ) async throws(VarlinkError) -> Value {
        do throws(Errno) {
            return try await body()
        } catch {
            throw .failed(words(error) ?? error.explanation, errno: error, interface: ItemInterface.name)
        }
    }

    private static func failing<Value>(_ body: () throws(Errno) -> Value) throws(VarlinkError) -> Value {
        do throws(Errno) { return try body() } catch { throw error.failure(interface: ItemInterface.name) }
    }

    private static func failing<Value: Sendable>(
        _ body: () async throws(Errno) -> Value
    ) async throws(VarlinkError) -> Value {
        do throws(Errno) { return try await body() } catch { throw error.failure(interface: ItemInterface.name) }
    }
}

extension ItemInterface.Request {
    /// The path asked for.
    ///
    /// Throws `InvalidParameter` when there is none.
    func itemPath() throws(VarlinkError) -> RemotePath {
        guard let path = try path.remotePath() else { throw .invalidParameter("path") }
        return path
    }
}
