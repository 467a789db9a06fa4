internal import CFuse
internal import CoveCore
internal import CoveEngine
internal import Glibc

/// The operations on names: what a directory's entries are, and how they come and go.
extension Request {
    consuming func lookup(_ parent: ItemID, _ name: [UInt8]) {
        let engine = begin()
        let isCached = !engine.isUncached(parent, name)
        do throws(Errno) {
            switch try engine.lookup(parent, name, caller) {
            case .now(let attributes):
                if let attributes, attributes.kind != .directory { connection.walkers.noteLookup(in: parent) }
                if let id = attributes?.id, let pending = engine.deferredTruncation(id, caller) {
                    return lookup(parent, name, waitingFor: pending, attributes, caller, isCached: isCached)
                }
                reply(entry: attributes, isCached: isCached)
            case .later(let pending):
                park(on: pending) { request, result in
                    switch result {
                    case .success(let attributes): request.reply(entry: attributes, isCached: isCached)
                    case .failure(let error): request.fail(error)
                    }
                }
            }
        } catch {
            fail(error)
        }
    }

    /// Answers what an item is that a file handle names; see open_by_handle_at(2).
    consuming func lookup(number id: ItemID) {
        let engine = begin()
        do throws(Errno) {
            let attributes = try engine.attributes(ofNumber: id, caller)
            reply(entry: attributes, isCached: true)
        } catch {
            fail(error)
        }
    }

    /// Answers which directory one is in that a file handle names.
    consuming func lookupParent(of id: ItemID) {
        let engine = begin()
        do throws(Errno) {
            let parent = try engine.directory(of: id)
            let attributes = try engine.attributes(ofNumber: parent, caller)
            reply(entry: attributes, isCached: true)
        } catch {
            fail(error)
        }
    }

    /// Answers a look-up once a program may cut the file that it is of.
    private consuming func lookup(
        _ parent: ItemID,
        _ name: [UInt8],
        waitingFor pending: Pending<PlainClaim>,
        _ attributes: ItemAttributes?,
        _ caller: Caller,
        isCached: Bool
    ) {
        let engine = connection.engine
        park(on: pending) { request, result in
            // A look-up that failed would be sent again: the call itself is told of the end of its wait.
            if case .failure(.interrupted) = result {
                engine.forgetTruncation(caller)
                return request.fail(.interrupted)
            }
            var attributes = attributes
            // A save may have put another file in its place meanwhile.
            if case .now(let found?) = try? engine.lookup(parent, name, caller) { attributes = found }
            if let id = attributes?.id { engine.endTruncationWait(id, caller, result) }
            request.reply(entry: attributes, isCached: isCached)
        }
    }

    consuming func mknod(_ parent: ItemID, _ name: [UInt8], mode: mode_t, device: dev_t) {
        make(name, .create(parent, name)) { engine, caller throws(Errno) in
            try engine.makeNode(parent, name, mode: mode, device: UInt64(device), caller)
        }
    }

    consuming func mkdir(_ parent: ItemID, _ name: [UInt8], mode: mode_t) {
        make(name, .create(parent, name)) { engine, caller throws(Errno) in
            try engine.makeDirectory(parent, name, mode: mode, caller)
        }
    }

    consuming func symlink(target: [UInt8], _ parent: ItemID, _ name: [UInt8]) {
        make(name, .create(parent, name)) { engine, caller throws(Errno) in
            try engine.makeSymbolicLink(parent, name, target: target, caller)
        }
    }

    consuming func link(_ id: ItemID, _ parent: ItemID, _ name: [UInt8]) {
        make(name, .link(id, parent, name)) { engine, caller throws(Errno) in
            try engine.link(id, parent, name, caller)
        }
    }

    consuming func unlink(_ parent: ItemID, _ name: [UInt8]) {
        perform(.remove(parent, name)) { engine, caller throws(Errno) in try engine.unlink(parent, name, caller) }
    }

    consuming func rmdir(_ parent: ItemID, _ name: [UInt8]) {
        whenListed(parent, name) { request in
            request.perform(.remove(parent, name)) { engine, caller throws(Errno) in
                try engine.removeDirectory(parent, name, caller)
            }
        }
    }

    /// Goes on when it is known what is in a directory that is to go, or when that can't be found out soon.
    private consuming func whenListed(
        _ parent: ItemID,
        _ name: [UInt8],
        _ body: @escaping @Sendable (consuming Request) -> Void
    ) {
        guard let listing = connection.engine.listingBeforeRemoval(parent, name, caller) else { return body(self) }
        park(on: listing) { request, result in
            if case .failure(.interrupted) = result { return request.fail(.interrupted) }
            body(request)
        }
    }

    consuming func rename(
        _ parent: ItemID,
        _ name: [UInt8],
        to newParent: ItemID,
        _ newName: [UInt8],
        flags: UInt32
    ) {
        let target = connection.engine.place(of: newParent, newName)
        let use = PlainUse.rename(parent, name, to: target.parent, target.name, flags: flags)
        let body: @Sendable (consuming Request) -> Void = { request in
            request.perform(use) { engine, caller throws(Errno) in
                try engine.rename(parent, name, newParent, newName, flags: flags, caller)
            }
        }
        // Only a directory that replaces another one has to do with what is in that.
        guard flags == 0, connection.engine.isDirectory(parent, name) else { return body(self) }
        whenListed(newParent, newName, body)
    }

    consuming func readlink(_ id: ItemID) {
        let engine = begin()
        do throws(Errno) {
            let target = try engine.readLink(id, caller)
            reply(target: target)
        } catch {
            fail(error)
        }
    }

    /// FORGET and BATCH_FORGET: node ids are item ids, so that no table of nodes shrinks.
    consuming func forget(_ ids: some Sequence<ItemID>) {
        let engine = begin()
        for id in ids { engine.forget(id) }
        end()
    }
}
