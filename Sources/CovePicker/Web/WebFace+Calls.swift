internal import CoveCore
internal import Synchronization

/// What the page asks for.
extension WebFace {
    /// How long a call waits for a listing that goes on, and how many items it tells at most.
    private static let patience = TimeSpan.milliseconds(250)
    private static let mostItems = 500

    /// Answers a request that is allowed.
    func answer(_ request: HTTPRequest, _ guardian: WebGuard) -> HTTPResponse {
        if request.path == "/", let token = request.query["token"] {
            guard let cookie = guardian.admit(token) else {
                return .text(403, "This address has been opened already, or is not whole; run `cove pick --web` again")
            }
            // By a page, not by a status: a cookie of this strictness is not sent where another site's link led to it.
            var response = HTTPResponse(200, "text/html; charset=utf-8", Array(PickerPage.entrance.utf8))
            response.fields = [cookie]
            return response
        }
        switch (request.method, request.path) {
        case (.get, "/"):
            let page = PickerPage.page(for: service.request, callSecret: guardian.callSecret)
            return HTTPResponse(200, "text/html; charset=utf-8", Array(page.utf8))
        case (.get, "/picker.css"): return HTTPResponse(200, "text/css; charset=utf-8", Array(PickerPage.style.utf8))
        case (.get, "/picker.js"):
            return HTTPResponse(200, "text/javascript; charset=utf-8", Array(PickerPage.script.utf8))
        case (.get, "/thumbnail"): return thumbnail(request)
        case (.get, "/call/start"): return start()
        case (.get, "/call/list"): return list(request)
        case (.post, "/call/choose"): return choose(request)
        case (.post, "/call/cancel"): return cancel()
        default: return .text(404, "Nothing is here")
        }
    }

    // MARK: Calls

    private func start() -> HTTPResponse {
        let request = service.request
        let roots = places.map {
            JSONValue.object([
                "name": .string($0.name.escapingControls), "id": .string(Hexadecimal.text($0.path)),
                "note": $0.note.map { .string($0.escapingControls) } ?? .null,
            ])
        }
        return .json(
            .object([
                "mode": .string(request.mode.rawValue), "app": .string(request.app),
                "choosesFolder": .bool(request.mode.choosesFolder), "name": .string(request.fileName.escapingControls),
                "roots": .array(roots),
            ])
        )
    }

    private func list(_ request: HTTPRequest) -> HTTPResponse {
        guard let folder = request.query["folder"].flatMap(Hexadecimal.bytes),
            let from = Int(request.query["from"] ?? "0"), from >= 0,
            let count = Int(request.query["count"] ?? "100"), (1...Self.mostItems).contains(count)
        else { return .text(400, "A parameter is missing or wrong") }
        let listing: FolderListing
        do throws(PickerFailure) {
            listing = try self.listing(of: folder, again: request.query["again"] == "1")
        } catch {
            return .json(failed(error))
        }
        _ = listing.wait(limit: Self.patience)
        switch listing.progress {
        case .loading(let found):
            return .json(.object(["state": .string("loading"), "found": .integer(Int64(found))]))
        case .failed(let failure): return .json(failed(failure))
        case .done: break
        }
        let items = filtered(listing, request.query["filter"] ?? "")
        let last = min(items.count, from.addingReportingOverflow(count).partialValue)
        let part = from < last ? (from..<last).compactMap { items[$0] } : []
        return .json(
            .object([
                "state": .string("done"), "total": .integer(Int64(items.all.count)),
                "matches": .integer(Int64(items.count)), "from": .integer(Int64(from)),
                "items": .array(part.map { value($0, in: folder) }),
            ])
        )
    }

    private func failed(_ failure: PickerFailure) -> JSONValue {
        .object(["state": .string("failed"), "error": .string(failure.line.escapingControls)])
    }

    private func value(_ item: ListedEntry, in folder: [UInt8]) -> JSONValue {
        let entry = item.entry
        return .object([
            "id": .string(Hexadecimal.text(folder.appending(name: entry.name))), "name": .string(item.shownName),
            "kind": .string(entry.kind.rawValue), "size": .integer(entry.size), "type": .string(entry.type),
            "uniformType": .string(entry.uniformType), "state": .string(entry.state.rawValue),
            "modified": entry.modificationTime.isFinite ? .double(entry.modificationTime) : .null,
            "selectable": .bool(entry.isSelectable && !service.request.mode.choosesFolder),
        ])
    }

    private func thumbnail(_ request: HTTPRequest) -> HTTPResponse {
        guard let path = request.query["item"].flatMap(Hexadecimal.bytes),
            let picture = try? service.thumbnail(path)
        else { return .text(404, "There is no picture") }
        return HTTPResponse(200, "image/png", picture)
    }

    private func choose(_ request: HTTPRequest) -> HTTPResponse {
        guard request.fields["content-type"] == "application/json" else { return .text(415, "Not JSON") }
        guard let call = try? JSONValue(parsing: request.body, nestedTo: 4),
            let path = call["item"]?.text.flatMap(Hexadecimal.bytes)
        else { return .text(400, "Not a choice") }
        var selection = PickerSelection(path: path)
        let mode = service.request.mode
        if mode.choosesFolder, let name = call["name"]?.text, name != service.request.fileName.escapingControls {
            if let problem = FileName.problem(with: Array(name.utf8)) {
                return .json(failed(PickerFailure(nil, "That is \(problem)", "write another name")))
            }
            selection.name = Array(name.utf8)
        }
        guard let interruption = try? Interruption(), let ended = try? Interruption() else {
            return .text(503, "No descriptor is left")
        }
        let isFirst = state.withLock { state in
            guard state.choice == nil, state.end == nil else { return false }
            state.choice = Choice(interruption: interruption, ended: ended)
            return true
        }
        guard isFirst else { return .json(failed(PickerFailure(nil, "Something is being done already"))) }
        defer { ended.interrupt() }
        do throws(PickerFailure) {
            let outcome = try service.choose(selection, interruption: interruption)
            var response = HTTPResponse.json(.object(["state": .string("done")]))
            response.end = .picked(outcome)
            return response
        } catch {
            state.withLock { $0.choice = nil }
            let isGivenUp = error == .interrupted
            return .json(failed(isGivenUp ? PickerFailure(nil, "Given up; nothing has changed") : error))
        }
    }

    private func cancel() -> HTTPResponse {
        let wasBusy = state.withLock { state in
            state.choice?.interruption.interrupt()
            return state.choice != nil
        }
        var response = HTTPResponse.json(.object(["state": .string(wasBusy ? "given-up" : "cancelled")]))
        if !wasBusy { response.end = .cancelled }
        return response
    }

    // MARK: Listings

    /// The listing of a folder: the one there is, or a new one, for which the former is given up.
    private func listing(of folder: [UInt8], again: Bool) throws(PickerFailure) -> FolderListing {
        if !again, let known = state.withLock({ $0.listing }), known.folder == folder { return known }
        let listing = try FolderListing(folder, of: service) {}
        let former = state.withLock { state in
            let former = state.listing
            (state.listing, state.items) = (listing, nil)
            return former
        }
        former?.cancel()
        return listing
    }

    private func filtered(_ listing: FolderListing, _ filter: String) -> FilteredEntries {
        let known = state.withLock { $0.listing === listing ? $0.items : nil }
        var items = known ?? FilteredEntries(listing.entries)
        let filter = String(filter.prefix(PickerModel.longestText))
        if items.filter != filter { items.set(filter: filter) }
        let result = items
        state.withLock { if $0.listing === listing { $0.items = result } }
        return result
    }
}
