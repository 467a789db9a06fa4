internal import CoveCore
public import Foundation
internal import Glibc
internal import Synchronization

extension Notification.Name {
    /// The account has come, gone, or is another one: ask for `FileManager.ubiquityIdentityToken` again.
    ///
    /// Posted on a thread of CoveKit's, once a program has asked for the token or its changes.
    public static let ubiquityIdentityDidChange = Notification.Name("NSUbiquityIdentityDidChangeNotification")
}

/// Watches which account this user has mounted, on a thread that the kernel wakes.
enum UbiquityWatch {
    private struct State {
        var isWatching = false
        var current: UbiquityIdentityToken?
        var listeners: [Int: AsyncStream<UbiquityIdentityToken?>.Continuation] = [:]
        var lastListener = 0
    }

    private static let state = Mutex(State())
    /// A mount whose daemon is just starting is asked again after so many milliseconds.
    private static let patience: Int32 = 500

    /// What is so now; changes are told of from then on.
    static func token() -> UbiquityIdentityToken? {
        let token = UbiquityIdentityToken.ofMachine().token
        begin(from: token)
        return token
    }

    /// The tokens that come after the one of now.
    static func changes() -> AsyncStream<UbiquityIdentityToken?> {
        _ = token()
        let (stream, continuation) = AsyncStream.makeStream(of: UbiquityIdentityToken?.self)
        let number = state.withLock { state in
            state.lastListener += 1
            state.listeners[state.lastListener] = continuation
            return state.lastListener
        }
        continuation.onTermination = { _ in state.withLock { _ = $0.listeners.removeValue(forKey: number) } }
        return stream
    }

    private static func begin(from token: UbiquityIdentityToken?) {
        let isFirst = state.withLock { state in
            guard !state.isWatching else { return false }
            (state.isWatching, state.current) = (true, token)
            return true
        }
        guard isFirst else { return }
        do throws(Errno) {
            let table = try System.open("/proc/self/mountinfo", O_RDONLY)
            do throws(Errno) { try BlockingThread.start { watch(table) } } catch {
                System.close(table)
                throw error
            }
        } catch {
            state.withLock { $0.isWatching = false }
        }
    }

    private static func watch(_ table: Int32) {
        while true {
            let (token, isCertain) = UbiquityIdentityToken.ofMachine()
            // A mount that does not answer yet may have it still.
            if isCertain || token != nil { tell(token) }
            var entry = pollfd(fd: table, events: Int16(POLLPRI), revents: 0)
            _ = poll(&entry, 1, isCertain ? -1 : patience)
        }
    }

    private static func tell(_ token: UbiquityIdentityToken?) {
        let listeners = state.withLock { state -> [AsyncStream<UbiquityIdentityToken?>.Continuation]? in
            guard state.current != token else { return nil }
            state.current = token
            return Array(state.listeners.values)
        }
        guard let listeners else { return }
        for listener in listeners { listener.yield(token) }
        NotificationCenter.default.post(name: .ubiquityIdentityDidChange, object: nil)
    }
}
