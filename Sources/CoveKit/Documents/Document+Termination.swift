internal import CoveCore
internal import Dispatch
internal import Glibc

/// Where the handler of SIGTERM leaves word; it may do nothing but write there.
private nonisolated(unsafe) var mailbox: Int32 = -1

extension Document {
    /// How long all saves have at the end; who ends a session of the desktop kills what takes much longer.
    private static let lastSaves = Duration.seconds(20)

    /// Saves all open documents when the process is asked to end by SIGTERM, then ends it.
    ///
    /// They are saved side by side. One that can't be saved within 20 s, for others have its file, keeps the process no longer.
    /// From the return of this call no such signal is lost. What documents override must be able to run meanwhile: a program whose
    /// documents belong to the main actor does not block its main thread.
    public static func autosaveOnTermination() {
        guard mailbox < 0 else { return }
        // Where there is nothing to be had for this, the signal does what it always did.
        guard let descriptor = try? System.eventDescriptor() else { return }
        do throws(Errno) { try BlockingThread.start { waitForEnd(descriptor) } } catch { return }
        mailbox = descriptor
        signal(SIGTERM) { _ in
            let error = errno
            var count: UInt64 = 1
            _ = write(mailbox, &count, 8)
            errno = error
        }
    }

    /// Saves documents, each whatever becomes of the others, until all are saved or the time is over.
    ///
    /// Blocks.
    static func autosave(_ documents: [Document], within time: Duration) {
        let saves = DispatchGroup()
        // Each takes descriptors, and one of the daemon's connections.
        let places = DispatchSemaphore(value: 32)
        let end = DispatchTime.now() + time / .seconds(1)
        for document in documents {
            // Those that have places may all wait for others.
            _ = places.wait(timeout: min(end, .now() + 0.25))
            guard .now() < end else { return }
            saves.enter()
            Task {
                try? await document.autosave()
                places.signal()
                saves.leave()
            }
        }
        _ = saves.wait(timeout: end)
    }

    private static func waitForEnd(_ descriptor: Int32) {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        while poll(&entry, 1, -1) != 1 {}
        autosave(FileCoordinator.filePresenters.compactMap { $0 as? Document }, within: lastSaves)
        signal(SIGTERM, SIG_DFL)
        // A thread may block signals, and this one has nothing else to do.
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGTERM)
        pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        raise(SIGTERM)
    }
}
