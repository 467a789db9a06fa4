internal import CFuse
internal import CLinux
internal import CoveCore
internal import CoveEngine
internal import Glibc

/// The operations on open files. No handle is given out: every request can be served from the node id alone.
extension Request {
    consuming func open(_ id: ItemID, flags: Int32) {
        coordinated(.open(id, flags: flags)) { engine, caller throws(Errno) in
            try engine.open(id, flags: flags, caller)
        } reply: { request, outcome in
            switch outcome {
            case .now:
                request.finishOpen(id, flags: flags)
            case .later(let pending):
                request.park(on: pending) { request, result in
                    switch result {
                    case .success: request.finishOpen(id, flags: flags)
                    case .failure(let error): request.fail(error, .open(id, flags: flags))
                    }
                }
            }
        }
    }

    private consuming func finishOpen(_ id: ItemID, flags: Int32) {
        let engine = connection.engine
        let backing = engine.backingNumber(of: id)
        // The kernel may remember that it has no blocks, and would say so of the bytes in its cache until they are sent; and
        // of what it writes by itself it is not to remember anything.
        if flags & O_ACCMODE != O_RDONLY, backing != nil || engine.isEmpty(id) {
            _ = fuse_lowlevel_notify_inval_inode(connection.session, id.rawValue, -1, 0)
        }
        let caller = caller
        engine.noteGrant(id, caller)
        if !replyOpen(backing: backing) {
            engine.noteRefusal(.open(id, flags: flags), caller, .interrupted)
            engine.release(id, flags: flags)
        }
    }

    consuming func create(_ parent: ItemID, _ name: [UInt8], mode: mode_t, flags: Int32) {
        coordinated(.create(parent, name)) { engine, caller throws(Errno) in
            try engine.create(parent, name, mode: mode, flags: flags, caller)
        } reply: { request, made in
            request.finishCreate(made, name, flags: flags)
        }
    }

    /// Makes a file that has no name yet; `O_TMPFILE` of open(2).
    consuming func createUnnamed(_ directory: ItemID, mode: mode_t, flags: Int32) {
        coordinated(nil) { engine, caller throws(Errno) in
            try engine.createUnnamed(in: directory, mode: mode, flags: flags, caller)
        } reply: { request, made in
            request.finishCreate(made, [], flags: flags)
        }
    }

    private consuming func finishCreate(_ made: ItemAttributes, _ name: [UInt8], flags: Int32) {
        let engine = connection.engine
        let backing = engine.backingNumber(of: made.id)
        engine.noteGrant(made.id, caller)
        if !reply(created: made, named: name, backing: backing) { engine.release(made.id, flags: flags) }
    }

    consuming func read(_ id: ItemID, offset: Int64, count: Int, flags: Int32) {
        let engine = begin()
        // Bytes that don't pass through the page cache may be for another thread than the one that asked.
        let isDirect = flags & Int32(COVE_O_DIRECT) != 0
        let thread = isDirect ? 0 : caller.thread
        do throws(Errno) {
            switch try engine.read(id, offset: offset, count: count, thread: thread) {
            case .now(let result):
                reply(read: result, at: offset)
            case .later(let pending):
                park(on: pending) { request, result in
                    switch result {
                    case .success(let result): request.reply(read: result, at: offset)
                    case .failure(let error): request.fail(error)
                    }
                }
            }
        } catch {
            fail(error)
        }
    }

    /// Passes the bytes on without looking at them.
    ///
    /// FUSE_WRITE_KILL_SUIDGID doesn't get past libfuse. But where it would be set the kernel writes through rather than
    /// from its page cache, so that such a write by another than root means the same.
    consuming func write(_ id: ItemID, _ source: UnsafeMutablePointer<fuse_bufvec>?, offset: Int64, isFromCache: Bool) {
        let engine = begin()
        guard let source else { return fail(.invalidArgument) }
        do throws(Errno) {
            let count = fuse_buf_size(source)
            let clearsPrivileges = !isFromCache && caller.user != 0
            if clearsPrivileges { try connection.dropPrivileges(of: id, caller) }
            let written = try engine.write(
                id,
                offset: offset,
                count: count,
                clearsPrivileges: clearsPrivileges
            ) { descriptor throws(Errno) in
                var target = fuse_bufvec(descriptor: descriptor, offset: offset, count: count)
                let copied = fuse_buf_copy(&target, source, FUSE_BUF_NO_SPLICE)
                guard copied >= 0 else { throw Errno(Int32(truncatingIfNeeded: -copied)) }
                return copied
            }
            reply(written: written)
        } catch {
            fail(error)
        }
    }

    consuming func flush(_ id: ItemID) {
        let engine = begin()
        do throws(Errno) {
            try engine.flush(id)
            succeed()
        } catch {
            fail(error)
        }
    }

    consuming func fsync(_ id: ItemID, dataOnly: Bool) {
        let engine = begin()
        do throws(Errno) {
            try engine.fsync(id, dataOnly: dataOnly)
            succeed()
        } catch {
            fail(error)
        }
    }

    consuming func release(_ id: ItemID, flags: Int32) {
        let engine = begin()
        engine.finish(id, flags: flags)
        // Only then: a release that the kernel sends again is not counted twice.
        succeed()
        engine.release(id, flags: flags)
    }

    consuming func fallocate(_ id: ItemID, mode: Int32, offset: Int64, length: Int64) {
        let connection = connection
        perform(.change(id)) { engine, caller throws(Errno) in
            if caller.user != 0 { try connection.dropPrivileges(of: id, caller) }
            try engine.allocate(id, mode: mode, offset: offset, length: length)
        }
    }

    consuming func copyFileRange(from: ItemID, at offset: Int64, to: ItemID, at newOffset: Int64, count: Int) {
        let connection = connection
        coordinated(.change(to)) { engine, caller throws(Errno) in
            if caller.user != 0 { try connection.dropPrivileges(of: to, caller) }
            return try engine.copyRange(from: from, at: offset, to: to, at: newOffset, count: count)
        } reply: { request, copied in
            request.reply(written: copied)
        }
    }
}

extension Connection {
    /// Takes set-user-id and set-group-id off a file before another than root changes its bytes.
    ///
    /// FUSE_HANDLE_KILLPRIV_V2 leaves that to the file system, and the kernel goes on with the mode it knows: a program
    /// that had overwritten a set-user-id file could run it as root. So the kernel is told at once, from inside the
    /// request: the invalidation of attributes alone takes no lock that a request may hold.
    fileprivate func dropPrivileges(of id: ItemID, _ caller: Caller) throws(Errno) {
        let attributes = try engine.attributes(of: id)
        guard attributes.kind == .file, attributes.permissions & 0o6000 != 0 else { return }
        var change = AttributeChange()
        change.clearsPrivileges = true
        _ = try engine.setAttributes(of: id, change, hasHandle: true, caller)
        _ = fuse_lowlevel_notify_inval_inode(session, id.rawValue, -1, 0)
    }
}
