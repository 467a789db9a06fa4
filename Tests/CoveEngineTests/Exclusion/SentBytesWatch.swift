import CoveCore
import Foundation
import Synchronization

/// Reads all that is sent to a source before that does: nothing that leaves the device is missed, however short a time it is there.
final class SentBytesWatch: Sendable {
    private let sent = Mutex<[Data]>([])
    private let hold = Mutex<(@Sendable () -> Void)?>(nil)

    /// The provider, watched.
    func wrap(
        _ base: any Provider,
        _ meddle: @escaping @Sendable (MeddledProvider.Moment, RemotePath) -> Void = { _, _ in }
    ) -> any Provider {
        MeddledProvider(base, meddle, watch: { Watched(base: $0, watch: self) })
    }

    /// Runs a body between the first byte of what is sent next and the others.
    func holdNext(_ body: @escaping @Sendable () -> Void) { hold.withLock { $0 = body } }

    /// True where some sent bytes had these among them.
    func has(_ bytes: [UInt8]) -> Bool { sent.withLock { $0.contains { $0.range(of: Data(bytes)) != nil } } }

    /// How many times something was sent.
    var count: Int { sent.withLock { $0.count } }

    private struct Watched: ContentSource {
        let base: any ContentSource
        let watch: SentBytesWatch
        var size: Int64 { base.size }
        var identity: [UInt8]? { base.identity }

        func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ProviderError) -> Int {
            try note(at: offset)
            return try base.read(at: offset, into: buffer)
        }

        func copy(to descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
            try note(at: offset)
            return try base.copy(to: descriptor, at: offset, count: count)
        }

        private func note(at offset: Int64) throws(ProviderError) {
            guard offset == 0 else { return }
            if let body = watch.hold.withLock({ $0.take() }) { body() }
            var all = Data(count: Int(base.size))
            var filled = 0
            while filled < all.count {
                let start = filled
                let result = all.withUnsafeMutableBytes { raw in
                    Result { () throws(ProviderError) in
                        try base.read(at: Int64(start), into: UnsafeMutableRawBufferPointer(rebasing: raw[start...]))
                    }
                }
                let count = try result.get()
                if count == 0 { break }
                filled += count
            }
            let found = all
            watch.sent.withLock { $0.append(found) }
        }
    }
}
