//! The io_uring of the engine thread: one ring, its eventfd in the tokio loop, one submission call a turn of the loop.
//!
//! Invariants: the slot of an I/O owns its buffers and its file from submission to completion, also when nobody waits any
//! more; a short result is continued and `EAGAIN`/`EINTR` are repeated here, so above this file an I/O is whole or failed;
//! no completion is missed, since the eventfd is drained before the queue is reaped and re-armed by the next completion.
use super::{IoBuf, IoOp};
use io_uring::{IoUring, opcode, squeue, types};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// Entries of the submission queue.
const SUBMISSIONS: u32 = 256;
/// I/O in the kernel at once; the completion queue has as many entries, so it cannot overflow.
const IN_FLIGHT_MAX: usize = 1024;
/// Buffers of one vectored write: the kernel's `UIO_MAXIOV`. More are continued like a short write.
const VECTORS_MAX: usize = 1024;

/// The ring of this thread. Clones share it; the last one waits for what is in the kernel.
#[derive(Clone)]
pub struct Ring(Rc<Handle>);

struct Handle {
    inner: Rc<Inner>,
    tasks: [AbortHandle; 2],
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

struct Inner {
    ring: RefCell<IoUring>,
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<usize>>,
    queued: RefCell<VecDeque<usize>>,
    in_flight: Cell<usize>,
    kick: Notify,
}

/// An open file, shared by its disk and by every I/O on it: it is closed, and its lock free, after the last of them.
pub(super) struct RingFile {
    pub(super) fd: OwnedFd,
    /// Smallest unit of offset and length, bytes.
    sector_bytes: usize,
    in_flight: Cell<usize>,
    idle: Notify,
}

impl RingFile {
    pub(super) fn new(fd: OwnedFd, sector_bytes: usize) -> Self {
        Self { fd, sector_bytes, in_flight: Cell::new(0), idle: Notify::new() }
    }

    /// Waits until the kernel holds no I/O of this file.
    pub(super) async fn quiesce(&self) {
        while self.in_flight.get() > 0 {
            self.idle.notified().await;
        }
    }

    fn add_in_flight(&self) {
        self.in_flight.set(self.in_flight.get() + 1);
    }

    fn remove_in_flight(&self) {
        self.in_flight.set(self.in_flight.get() - 1);
        if self.in_flight.get() == 0 {
            self.idle.notify_waiters();
        }
    }
}

/// What an I/O does, with its buffers.
pub(super) enum Request {
    Read(IoBuf),
    Write(Vec<IoBuf>),
    Flush,
    Discard { len_bytes: u64 },
    Zero { len_bytes: u64 },
}

impl Request {
    fn len(&self) -> usize {
        match self {
            Request::Read(buf) => buf.len(),
            Request::Write(bufs) => bufs.iter().map(|buf| buf.len()).sum(),
            Request::Flush | Request::Discard { .. } | Request::Zero { .. } => 0,
        }
    }

    pub(super) fn op(&self) -> IoOp {
        match self {
            Request::Read(_) => IoOp::Read,
            Request::Write(_) | Request::Zero { .. } => IoOp::Write,
            Request::Flush => IoOp::Flush,
            Request::Discard { .. } => IoOp::Discard,
        }
    }
}

/// The life of a slot: Free -> Busy (queued or in the kernel) -> Done -> Free, or Busy -> Free when abandoned.
enum Slot {
    Free,
    Busy(Busy),
    Done { request: Request, result: Result<(), i32> },
}

struct Busy {
    request: Request,
    file: Rc<RingFile>,
    offset_bytes: u64,
    done_bytes: usize,
    /// Built for each submission; the kernel reads it until the completion.
    vectors: Vec<libc::iovec>,
    waker: Option<Waker>,
    abandoned: bool,
}

impl Ring {
    /// Makes the ring and its two tasks on the current `LocalSet`.
    pub fn new() -> io::Result<Self> {
        let completions = IN_FLIGHT_MAX as u32;
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_cqsize(completions)
            .build(SUBMISSIONS)
            // Kernels before 6.0 do not know the flags.
            .or_else(|_| IoUring::builder().setup_cqsize(completions).build(SUBMISSIONS))?;
        let flags = rustix::event::EventfdFlags::NONBLOCK | rustix::event::EventfdFlags::CLOEXEC;
        let eventfd = rustix::event::eventfd(0, flags)?;
        ring.submitter().register_eventfd(eventfd.as_raw_fd())?;
        #[allow(unsafe_code, reason = "the registration must know that the descriptor stays open")]
        // SAFETY: an OwnedFd closes its descriptor only when it is dropped, which AsyncFd does after deregistering.
        let eventfd = unsafe { AsyncFd::register_with_interest(eventfd, Interest::READABLE)? };
        let inner = Rc::new(Inner {
            ring: RefCell::new(ring),
            slots: RefCell::default(),
            free: RefCell::default(),
            queued: RefCell::default(),
            in_flight: Cell::new(0),
            kick: Notify::new(),
        });
        let submitter = tokio::task::spawn_local(submit_each_turn(Rc::clone(&inner))).abort_handle();
        let reaper = tokio::task::spawn_local(reap_on_event(Rc::clone(&inner), eventfd)).abort_handle();
        Ok(Self(Rc::new(Handle { inner, tasks: [submitter, reaper] })))
    }

    /// Runs one I/O to its end. On an error the number of the operating system comes back.
    pub(super) async fn run(
        &self,
        file: &Rc<RingFile>,
        offset_bytes: u64,
        request: Request,
    ) -> Result<Request, i32> {
        let inner = &self.0.inner;
        let slot = inner.enqueue(file, offset_bytes, request);
        let waiter = Waiter { inner, slot };
        poll_fn(|cx| waiter.poll_slot(cx)).await
    }
}

struct Waiter<'a> {
    inner: &'a Inner,
    slot: usize,
}

impl Waiter<'_> {
    fn poll_slot(&self, cx: &mut Context<'_>) -> Poll<Result<Request, i32>> {
        let mut slots = self.inner.slots.borrow_mut();
        match std::mem::replace(&mut slots[self.slot], Slot::Free) {
            Slot::Done { request, result } => {
                // Marks the slot as taken; `drop` gives it back.
                Poll::Ready(result.map(|()| request))
            }
            Slot::Busy(mut busy) => {
                busy.waker = Some(cx.waker().clone());
                slots[self.slot] = Slot::Busy(busy);
                Poll::Pending
            }
            Slot::Free => Poll::Pending,
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut slots = self.inner.slots.borrow_mut();
        if let Slot::Busy(busy) = &mut slots[self.slot] {
            // The kernel may hold the buffers: the completion frees the slot.
            busy.abandoned = true;
            busy.waker = None;
            return;
        }
        let finished = std::mem::replace(&mut slots[self.slot], Slot::Free);
        drop(slots);
        drop(finished);
        self.inner.free.borrow_mut().push(self.slot);
    }
}

async fn submit_each_turn(inner: Rc<Inner>) {
    loop {
        inner.kick.notified().await;
        // All tasks that are ready now add their I/O before the one call into the kernel.
        tokio::task::yield_now().await;
        inner.submit();
    }
}

async fn reap_on_event(inner: Rc<Inner>, eventfd: AsyncFd<OwnedFd>) {
    loop {
        let Ok(mut ready) = eventfd.readable().await else { return };
        let mut count = [0; 8];
        while let Ok(_) | Err(rustix::io::Errno::INTR) = rustix::io::read(eventfd.get_ref(), &mut count) {}
        ready.clear_ready();
        inner.reap();
    }
}

impl Inner {
    fn enqueue(&self, file: &Rc<RingFile>, offset_bytes: u64, request: Request) -> usize {
        file.add_in_flight();
        let busy = Busy {
            request,
            file: Rc::clone(file),
            offset_bytes,
            done_bytes: 0,
            vectors: Vec::new(),
            waker: None,
            abandoned: false,
        };
        let mut slots = self.slots.borrow_mut();
        let free = self.free.borrow_mut().pop();
        let slot = free.unwrap_or_else(|| {
            slots.push(Slot::Free);
            slots.len() - 1
        });
        slots[slot] = Slot::Busy(busy);
        drop(slots);
        self.queue(slot);
        slot
    }

    fn queue(&self, slot: usize) {
        self.queued.borrow_mut().push_back(slot);
        self.kick.notify_one();
    }

    /// Hands queued I/O to the kernel, as much as fits; the rest follows as completions make room.
    fn submit(&self) {
        loop {
            let pushed = self.fill();
            if pushed == 0 && self.ring.borrow_mut().submission().is_empty() {
                return;
            }
            let submitted = self.ring.borrow().submit();
            match submitted {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) => {
                    self.reap();
                    self.kick.notify_one();
                    return;
                }
                // No I/O can be served without the ring: the engine thread ends, and with it the process.
                Err(error) => panic!("io_uring refuses submissions: {error}"),
            }
        }
    }

    fn fill(&self) -> usize {
        let mut pushed = 0;
        let mut ring = self.ring.borrow_mut();
        let mut submission = ring.submission();
        while self.in_flight.get() < IN_FLIGHT_MAX && !submission.is_full() {
            let Some(slot) = self.queued.borrow_mut().pop_front() else { break };
            let Slot::Busy(busy) = &mut self.slots.borrow_mut()[slot] else { continue };
            let entry = busy.entry().user_data(slot as u64);
            #[allow(unsafe_code, reason = "the slot owns every buffer of the entry until its completion")]
            // SAFETY: buffers, vectors and file live in the slot, which stays Busy until `complete`.
            let result = unsafe { submission.push(&entry) };
            debug_assert!(result.is_ok(), "room was checked");
            self.in_flight.set(self.in_flight.get() + 1);
            pushed += 1;
        }
        pushed
    }

    fn reap(&self) {
        loop {
            let next = self.ring.borrow_mut().completion().next();
            let Some(entry) = next else { break };
            self.in_flight.set(self.in_flight.get() - 1);
            self.complete(entry.user_data() as usize, entry.result());
        }
        if !self.queued.borrow().is_empty() {
            self.kick.notify_one();
        }
    }

    fn complete(&self, slot: usize, result: i32) {
        let mut slots = self.slots.borrow_mut();
        let Slot::Busy(mut busy) = std::mem::replace(&mut slots[slot], Slot::Free) else { return };
        let Some(result) = busy.outcome(result) else {
            slots[slot] = Slot::Busy(busy);
            drop(slots);
            return self.queue(slot);
        };
        busy.file.remove_in_flight();
        let waker = busy.waker.take();
        if busy.abandoned {
            drop(slots);
            drop(busy);
            self.free.borrow_mut().push(slot);
            return;
        }
        slots[slot] = Slot::Done { request: busy.request, result };
        drop(slots);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Busy {
    /// The entry for what is left of the I/O.
    fn entry(&mut self) -> squeue::Entry {
        let fd = types::Fd(self.file.fd.as_raw_fd());
        let at = self.offset_bytes + self.done_bytes as u64;
        match &mut self.request {
            Request::Read(buf) => {
                let rest = &mut buf.as_mut()[self.done_bytes..];
                opcode::Read::new(fd, rest.as_mut_ptr(), rest.len() as u32).offset(at).build()
            }
            Request::Write(bufs) if bufs.len() == 1 => {
                let rest = &bufs[0][self.done_bytes..];
                opcode::Write::new(fd, rest.as_ptr(), rest.len() as u32).offset(at).build()
            }
            Request::Write(bufs) => {
                fill_vectors(&mut self.vectors, bufs, self.done_bytes);
                let count = self.vectors.len() as u32;
                opcode::Writev::new(fd, self.vectors.as_ptr(), count).offset(at).build()
            }
            Request::Flush => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
            Request::Discard { len_bytes } => {
                let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                opcode::Fallocate::new(fd, *len_bytes).offset(at).mode(mode).build()
            }
            Request::Zero { len_bytes } => {
                let mode = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
                opcode::Fallocate::new(fd, *len_bytes).offset(at).mode(mode).build()
            }
        }
    }

    /// What the kernel's answer means: the end of the I/O, or `None` when it goes on.
    fn outcome(&mut self, result: i32) -> Option<Result<(), i32>> {
        match -result {
            libc::EAGAIN | libc::EINTR => return None,
            errno if errno > 0 => return Some(Err(errno)),
            _ => {}
        }
        let want = self.request.len();
        if want == 0 {
            return Some(Ok(()));
        }
        if result == 0 {
            // The file ends before the disk does.
            return Some(Err(libc::EIO));
        }
        let before = self.done_bytes;
        self.done_bytes += result as usize;
        if self.done_bytes == want {
            return Some(Ok(()));
        }
        // Direct I/O goes on at a whole sector; the bytes in between are done twice.
        self.done_bytes -= self.done_bytes % self.file.sector_bytes;
        // Less than a sector is no progress: the file ends there.
        if self.done_bytes > before { None } else { Some(Err(libc::EIO)) }
    }
}

fn fill_vectors(vectors: &mut Vec<libc::iovec>, bufs: &[IoBuf], mut skip: usize) {
    vectors.clear();
    for buf in bufs {
        let rest = &buf[skip.min(buf.len())..];
        skip = skip.saturating_sub(buf.len());
        if !rest.is_empty() && vectors.len() < VECTORS_MAX {
            vectors.push(libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() });
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Buffers must outlive what the kernel does with them.
        while self.in_flight.get() > 0 {
            let waited = self.ring.borrow().submit_and_wait(1);
            if waited.is_err_and(|error| error.raw_os_error() != Some(libc::EINTR)) {
                std::process::abort();
            }
            self.reap();
        }
    }
}
