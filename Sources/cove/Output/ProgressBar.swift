internal import CoveCore
internal import Glibc

/// One line on standard error that shows how far a transfer is; nothing at all where no person looks at it.
final class ProgressBar {
    private let terminal = Terminal.standardError
    private var isShown = false
    private var lastDrawn = MonotonicTime.distantPast
    private var meter = RateMeter()

    deinit { clear() }

    /// Shows bytes done of bytes in all, with the rate and the time left.
    func show(_ label: String, done: Int64, total: Int64) {
        guard terminal.isInteractive else { return }
        let now = System.monotonic()
        meter.add(done, at: now)
        guard now - lastDrawn >= .milliseconds(100) || (total > 0 && done >= total) else { return }
        lastDrawn = now
        let share = total > 0 ? max(0, min(1, Double(done) / Double(total))) : 0
        var numbers = " \(Int(share * 100))%  \(Units.size(done)) of \(Units.size(total))"
        if let rate = meter.bytesPerSecond, rate >= 1 {
            let left = Double(max(0, total.saturatingSubtract(done))) / rate
            numbers += "  \(Units.size(Int64(saturating: rate)))/s  \(Units.duration(left)) left"
        }
        draw(label, share: share, numbers)
    }

    /// Shows a text in place of a bar.
    func show(_ text: String) {
        guard terminal.isInteractive else { return }
        let now = System.monotonic()
        guard now - lastDrawn >= .milliseconds(100) else { return }
        lastDrawn = now
        write(String(terminal.safe(text).prefix(max(10, terminal.width - 1))))
    }

    /// Removes the line.
    func clear() {
        guard isShown else { return }
        terminal.write("\r\u{1B}[K")
        isShown = false
    }

    private func draw(_ label: String, share: Double, _ numbers: String) {
        let width = terminal.width - 1
        let barWidth = min(30, width - numbers.count - 12)
        var bar = ""
        if barWidth >= 8 {
            let filled = Int(Double(barWidth - 2) * share)
            bar = "[" + String(repeating: "#", count: filled)
            bar += String(repeating: "-", count: barWidth - 2 - filled) + "]"
        }
        let room = max(0, width - numbers.count - bar.count - 1)
        let name = terminal.safe(label)
        let shown = name.count <= room ? name : "…" + name.suffix(max(0, room - 1))
        write("\(shown) \(bar)\(numbers)")
    }

    private func write(_ line: String) {
        terminal.write("\r\(line)\u{1B}[K")
        isShown = true
    }
}

/// The mean rate of the last seconds.
struct RateMeter {
    private var samples: [(time: MonotonicTime, bytes: Int64)] = []

    /// Adds how many bytes are done at a time.
    mutating func add(_ bytes: Int64, at time: MonotonicTime) {
        samples.append((time, bytes))
        while samples.count > 2, time - samples[0].time > .seconds(5) { samples.removeFirst() }
    }

    /// Bytes per second; nil before half a second has passed.
    var bytesPerSecond: Double? {
        guard let first = samples.first, let last = samples.last, last.time - first.time >= .milliseconds(500) else {
            return nil
        }
        return (Double(last.bytes) - Double(first.bytes)) / (last.time - first.time).seconds
    }
}
