import CoveCore
import CoveTestSupport
import Foundation

/// What goes wrong during a storm: processes are killed, and the source can't be reached for a while.
final class StormWeather: @unchecked Sendable {
    private enum Event { case killDaemon, crash, cutOff, badLine }

    private let devices: [StormDevice]
    /// The folder that is the source, which goes away for a while as a disk does; nil for a server.
    private let folder: String?
    private let ledger: StormLedger
    private let events: [Event]
    /// Used by one thread.
    private var random: SeededGenerator

    init(_ devices: [StormDevice], _ folder: String?, _ ledger: StormLedger, _ storm: Storm, _ random: SeededGenerator)
    {
        self.devices = devices
        self.folder = folder
        self.ledger = ledger
        self.random = random
        var events: [Event] = storm.hasKills ? [.killDaemon, .killDaemon, .crash] : []
        if storm.hasFaults { events += folder == nil ? [.cutOff, .badLine, .badLine, .badLine] : [.cutOff] }
        self.events = events
    }

    /// Lets things go wrong until a time, each kind about as often.
    func run(until end: MonotonicTime) throws {
        guard !events.isEmpty else { return }
        while true {
            for event in events.shuffled(using: &random) {
                wait(Int.random(in: 100...1200, using: &random), until: end)
                guard System.monotonic() < end, let device = devices.randomElement(using: &random) else { return }
                try happen(event, device, until: end)
            }
        }
    }

    private func happen(_ event: Event, _ device: StormDevice, until end: MonotonicTime) throws {
        switch event {
        case .killDaemon:
            ledger.note("the daemon of device \(device.index) is killed")
            try device.killDaemon()
            ledger.count("daemons killed")
        case .crash:
            ledger.note("all of device \(device.index) is killed")
            try device.crash()
            ledger.count("accounts killed")
        case .cutOff:
            ledger.note("the source is cut off")
            try cutOff(until: end)
            ledger.count("cuts")
        case .badLine:
            guard let line = device.line else { return }
            let (what, fault) = anyFault()
            ledger.note("the line of device \(device.index): \(what)")
            line.set(fault)
            line.dropAll()
            wait(Int.random(in: 200...2500, using: &random), until: end)
            line.set { $0 = FaultProxy.Faults() }
            line.dropAll()
            ledger.count("bad lines")
        }
    }

    private func cutOff(until end: MonotonicTime) throws {
        let time = Int.random(in: 200...2500, using: &random)
        if let folder {
            let away = "\(folder).away"
            try System.rename(folder, away)
            wait(time, until: end)
            try System.rename(away, folder)
            return
        }
        let isSilent = random.oneIn(3)
        for device in devices {
            device.line?.set { faults in
                faults.refuses = !isSilent
                faults.isSilent = isSilent
            }
            device.line?.dropAll()
        }
        wait(time, until: end)
        clear()
    }

    /// Makes all lines good again.
    func clear() {
        for device in devices {
            device.line?.set { $0 = FaultProxy.Faults() }
            device.line?.dropAll()
        }
    }

    private func anyFault() -> (String, (inout FaultProxy.Faults) -> Void) {
        let every = Int.random(in: 1...3, using: &random)
        let bytes = Int.random(in: 0...4000, using: &random)
        let status = [401, 412, 423, 429, 500, 502, 503, 507].randomElement(using: &random) ?? 503
        let kind = Int.random(in: 0..<7, using: &random)
        let what = "kind \(kind), every \(every), \(bytes) bytes, status \(status)"
        return (
            what,
            { faults in
                faults.every = every
                switch kind {
                case 0: faults.refuses = true
                case 1: faults.isSilent = true
                case 2: faults.cutAfter = bytes
                case 3: faults.stallAfter = bytes
                case 4: faults.latency = Int32(bytes / 40)
                default: faults.answer = "HTTP/1.1 \(status) Injected\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                }
            }
        )
    }

    private func wait(_ milliseconds: Int, until end: MonotonicTime) {
        let left = (end - System.monotonic()).milliseconds
        _ = poll(nil, 0, Int32(clamping: max(0, min(Int64(milliseconds), left))))
    }
}
